import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Child, gap } from "./_child.ts";

describe("a second signal", () => {
  for (const [signal, expected] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
    it(`a second signal, ${signal}, cancels work in flight: exit code ${expected}`, async () => {
      await using child = Child.start("obedient");
      await child.line("ready");
      child.kill("SIGTERM");
      await child.line("stopping");
      await gap();
      child.kill(signal);
      const { code, stdout, stderr } = await child.exit();
      assertEquals([code, stdout], [expected, "ready\nstopping\nCancelledError: forced\n"]);
      assertStringIncludes(stderr, "lastcall: forced in ");
    });
  }
});

describe("a third signal", () => {
  it("a third signal ends a process whose step ignores everything: 128 + its number", async () => {
    await using child = Child.start("stubborn");
    await child.line("ready");
    child.kill("SIGTERM");
    await child.line("stopping");
    await gap();
    child.kill("SIGTERM");
    await child.line("cancelled");
    await gap();
    child.kill("SIGINT");
    const { code, stdout } = await child.exit();
    assertEquals([code, stdout], [130, "ready\nstopping\ncancelled\n"]);
  });
});
