import { constants } from "node:os";
import { test } from "node:test";
import { assertEquals, assertLess, assertRejects, assertStringIncludes } from "@std/assert";
import { run } from "../../tools/process.ts";
import { runtimeBinary } from "../../tools/runtimes.ts";

const node = runtimeBinary("node");

test("run collects the exit code and both outputs", async () => {
  const script = 'console.log("out"); console.error("err"); process.exitCode = 3;';
  const { code, output } = await run(node, ["-e", script]);
  assertEquals(code, 3);
  assertStringIncludes(output, "out\n");
  assertStringIncludes(output, "err\n");
});

test("run kills a program past its time limit with its children", async () => {
  // The grandchild holds the same output open: were it alive, the run would go on for a minute.
  const grandchild = "setTimeout(() => {}, 60_000)";
  const script = `require("node:child_process").spawn(process.execPath,
    ["-e", ${JSON.stringify(grandchild)}], { stdio: "inherit" });`;
  const { code, output, ms } = await run(node, ["-e", script], { timeoutMs: 300 });
  assertEquals(code, 124);
  assertStringIncludes(output, "limit of 300 ms");
  assertLess(ms, 30_000);
});

test("run gives other programs the processor first if it is asked to", async () => {
  const { output } = await run(node, ["-p", "os.getPriority()"], { lowPriority: true });
  assertEquals(Number(output), constants.priority.PRIORITY_LOW);
});

test("run rejects for a missing program", async () => {
  await assertRejects(() => run("no-such-program-here", []), Error);
});
