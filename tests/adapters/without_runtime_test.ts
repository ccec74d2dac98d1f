import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { assertEquals, assertMatch } from "@std/assert";
import { run } from "../../tools/process.ts";
import { runtimeBinary, type RuntimeName } from "../../tools/runtimes.ts";
import { runtimeName } from "../signals/_child.ts";

const fixture = fileURLToPath(new URL("fixtures/without_runtime.ts", import.meta.url));
const onlyAgents = fileURLToPath(new URL("fixtures/only_agents.ts", import.meta.url));
const address = new URL("../../mod.ts", import.meta.url).href;

it("the package can be imported without process, Deno and Bun; only a group needs a runtime", async () => {
  const program = runtimeBinary(runtimeName as RuntimeName);
  const flags = runtimeName === "deno" ? ["run", "-A", "--no-check"] : [];
  const { code, output } = await run(program, [...flags, fixture, address]);
  assertEquals(code, 0, output);
  assertMatch(output, /^acknowledged tea\nran a loop\na group: /);
  // The fixture cannot remove the global of Bun.
  if (runtimeName !== "bun") assertMatch(output, /No runtime is known here: .*`runtime`/);
});

it("a program that imports only agents and evaluations has a runtime", async () => {
  const program = runtimeBinary(runtimeName as RuntimeName);
  const flags = runtimeName === "deno" ? ["run", "-A", "--no-check"] : [];
  const { code, output } = await run(program, [...flags, onlyAgents]);
  assertEquals([code, output.trim()], [0, "1 evaluated"]);
});
