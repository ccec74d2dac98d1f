import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { TempFolder } from "./engines/sqlite/_folder.ts";
import { Child, type Ended } from "./signals/_child.ts";

function start(example: string, cwd?: string): Child {
  return Child.start(`../../../examples/${example}`, cwd === undefined ? {} : { cwd });
}

/** How it ended, with everything it said. */
function told({ code, stdout, stderr }: Ended): string {
  return `exit ${code}\n${stdout}\n${stderr}`;
}

describe("the examples", () => {
  it("an agency answers what it is thinking about and closes", async () => {
    await using agency = start("09_agent");
    await agency.says("days in ");
    agency.kill("SIGTERM");
    const ended = await agency.exit();
    assertEquals(ended.code, 0, told(ended));
  });

  it("agents stop one by one and together, completely", async () => {
    await using agents = start("11_coordination");
    const ended = await agents.exit();
    assertEquals(ended.code, 0, told(ended));
    assertStringIncludes(ended.stdout, "complete with 0 messages left");
    assertStringIncludes(ended.stdout, "3 stopped completely");
  });

  it("an evaluation that was stopped goes on where it was, and leaves nothing behind", async () => {
    using folder = new TempFolder();
    await using first = start("10_evaluation", folder.path);
    await first.says("capitals: 0/60");
    first.kill("SIGTERM");
    const stopped = await first.exit();
    assertEquals(stopped.code, 0, told(stopped));
    assertStringIncludes(stopped.stdout, "Stopped. Start it again");
    await using second = start("10_evaluation", folder.path);
    const ended = await second.exit();
    assertEquals(ended.code, 0, told(ended));
    assertMatch(ended.stdout, /terse against chatty:\n +pass rate \+83\.3 points/);
    assertEquals(readdirSync(folder.path), []);
  });
});
