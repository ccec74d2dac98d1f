import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { Child, runtimeName } from "./_child.ts";

const runFlags = ["run", "--no-prompt"];
const skip = runtimeName !== "deno" && "only Deno has permissions";

describe("without any permission, on Deno", () => {
  it("a signal stops the group", { skip }, async () => {
    await using child = Child.start("idle", { runFlags });
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stderr } = await child.exit();
    assertEquals([code, stderr], [0, ""]);
  });

  it("a blocked event loop is killed", { skip }, async () => {
    await using child = Child.start("blocked_later", { runFlags });
    const { code, signal, stderr } = await child.exit();
    assertEquals([code, signal], [null, "SIGKILL"]);
    assertMatch(stderr, /event loop is blocked for \d+ ms, and with it "blocked"/);
  });

  it("a stalled loop is killed", { skip }, async () => {
    await using child = Child.start("stalled", { runFlags });
    const { code, signal, stderr } = await child.exit();
    assertEquals([code, signal], [null, "SIGKILL"]);
    assertMatch(stderr, /no sign of life from "stalled"/);
  });
});
