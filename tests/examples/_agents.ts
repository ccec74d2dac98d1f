import { readdirSync } from "node:fs";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { TempFolder } from "../engines/sqlite/_folder.ts";
import { ended, everywhere, type Host, start, stopped } from "./_example.ts";

/** Agents, evaluations, and agents that stop together. */
export function agents(it: Host): void {
  it(
    "10: an evaluation that was stopped goes on where it was, and leaves nothing behind",
    everywhere,
    async () => {
      using folder = new TempFolder();
      await using first = start("10_evaluation", { cwd: folder.path });
      await first.says("capitals: 0/60");
      assertStringIncludes(await stopped(first), "Stopped. Start it again to continue");
      await using second = start("10_evaluation", { cwd: folder.path });
      assertMatch(await ended(second), /terse against chatty:\n +pass rate \+83\.3 points/);
      assertEquals(readdirSync(folder.path), []);
    },
  );

  it("9: the agents answer their current requests and stop", everywhere, async () => {
    await using agency = start("09_agent");
    await agency.says("days in ");
    await stopped(agency);
  });

  it("11: agents stop one by one and together, completely", everywhere, async () => {
    await using agents = start("11_coordination");
    const said = await ended(agents);
    assertStringIncludes(said, "complete with 0 messages left");
    assertStringIncludes(said, "3 stopped completely");
  });
}
