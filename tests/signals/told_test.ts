import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { Child } from "./_child.ts";

describe("main() without a terminal", () => {
  it("main() without a terminal writes every change of a stop as a line of JSON", async () => {
    await using child = Child.start("busy");
    await child.line("ready");
    child.kill("SIGTERM");
    const { code, told } = await child.exit();
    assertEquals(code, 0);
    assertEquals(
      told.filter(({ event }) => event === "phase").map(({ phase, reason }) => [phase, reason]),
      [["unready", "SIGTERM"], ["draining", "SIGTERM"], ["stopped", "SIGTERM"]],
    );
    const [first] = told;
    assertEquals([first?.["source"], first?.["inFlight"]], ["lastcall", 1]);
    assertMatch(String(first?.["at"]), /^\d{4}-\d\d-\d\dT.*Z$/);
    const { outcome, exitCode, inFlight } = told.at(-1)!;
    assertEquals([told.at(-1)?.event, outcome, exitCode, inFlight], ["report", "drained", 0, 0]);
  });

  it("main() writes nothing about a run that ended by itself, and nothing with drainView: false", async () => {
    for (const fixture of ["finishing", "silent_view"]) {
      await using child = Child.start(fixture);
      if (fixture === "silent_view") {
        await child.line("ready");
        child.kill("SIGTERM");
      }
      const { code, stderr, told } = await child.exit();
      assertEquals([code, stderr, told], [0, "", []], fixture);
    }
  });
});
