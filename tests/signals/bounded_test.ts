import { describe, it } from "node:test";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Child } from "./_child.ts";

const hung = [
  ["hung_hook", "a shutdown callback", "not ended: shutdown callback closePool"],
  ["hung_resource", "a resource's stop", 'not ended: resource "database"'],
  ["hung_step", "a step", "stuck: hung in "],
] as const;

describe("a stop", () => {
  for (const [fixture, what, named] of hung) {
    it(`a stop is bounded and names what hangs, exit code 124: ${what} never ends`, async () => {
      await using child = Child.start(fixture);
      await child.line("ready");
      child.kill("SIGTERM");
      const { code, stderr } = await child.exit();
      assertEquals(code, 124);
      assertStringIncludes(stderr, "lastcall: timed out in ");
      assertStringIncludes(stderr, named);
    });
  }

  it("a stop calls every shutdown callback, also after some that throw, exit code 0", async () => {
    await using child = Child.start("throwing_hooks");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout], [0, "ready\nfiles closed\n"]);
    for (const text of ["closeCache", "cache is gone", "closeDatabase", "database is gone"]) {
      assertStringIncludes(stderr, text);
    }
  });

  it("a stop after a failure lets the other loops finish and reports the error, exit code 1", async () => {
    await using child = Child.start("failing");
    const { code, stdout, stderr } = await child.exit();
    assertEquals([code, stdout], [1, "finished\n"]);
    assertStringIncludes(stderr, 'loop "failing" failed');
    assertStringIncludes(stderr, "out of paper");
  });
});
