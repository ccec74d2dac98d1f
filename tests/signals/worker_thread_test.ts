import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Child, runtimeName } from "./_child.ts";

/** What can be called where no signal is heard. */
const ADVICE = "call run({ installSignals: false }) in the worker and stop it with shutdown().";

const kinds = runtimeName === "node" ? ["node"] : ["node", "web"];

for (const kind of kinds) {
  describe(`in a worker thread (${kind} API)`, () => {
    it("main() is refused, and the error says what to do", async () => {
      await using child = Child.start("worker_thread", { args: [kind, "main"] });
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stderr], [0, ""]);
      assertStringIncludes(stdout, "refused: main() cannot end the process from a worker thread.");
      assertStringIncludes(stdout, ADVICE);
    });

    it("run() is refused where the thread gets no signals", {
      skip: runtimeName === "deno" && "workers of Deno get signals",
    }, async () => {
      await using child = Child.start("worker_thread", { args: [kind, "run"] });
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stderr], [0, ""]);
      assertStringIncludes(stdout, "refused: Cannot listen for SIGTERM in a worker thread");
      assertStringIncludes(stdout, ADVICE);
    });

    it("run() stops by a signal where the thread gets signals", {
      skip: runtimeName !== "deno" && `workers of ${runtimeName} get no signals`,
    }, async () => {
      await using child = Child.start("worker_thread", { args: [kind, "run"] });
      await child.line("ready");
      child.kill("SIGTERM");
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout, stderr], [0, "ready\ndrained by SIGTERM\n", ""]);
    });

    it("run() without signals runs and stops by shutdown()", async () => {
      await using child = Child.start("worker_thread", { args: [kind, "run without signals"] });
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout, stderr], [0, "ready\ndrained by shutdown() was called\n", ""]);
    });
  });
}
