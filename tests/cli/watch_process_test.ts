import { it } from "node:test";
import { assertEquals } from "@std/assert";
import { freePort } from "../engines/_servers.ts";
import { Child } from "../signals/_child.ts";

it("lastcall status --watch in a process runs until Ctrl+C and exits 0", async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const args = ["status", url, "--watch", "--every", "10ms", "--json"];
  const message = `Cannot reach ${url}: connection refused`;
  await using watching = Child.start("../../../cli/mod", { args });
  await watching.line(JSON.stringify({ error: { message, code: "unavailable" } }));
  watching.kill("SIGINT");
  const { code, stderr } = await watching.exit();
  assertEquals({ code, stderr }, { code: 0, stderr: "" });
});
