import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { lastcall } from "./_io.ts";

const MONDAYS = ["cron", "next", "0 9 * * 1", "--tz", "Europe/Berlin"];

describe("lastcall cron next", () => {
  it("lists the next slots in UTC and in the time zone, through a change of the clock", async () => {
    const { code, out } = await lastcall([
      ...MONDAYS,
      ...["--from", "2030-03-24T00:00Z", "--count", "2"],
    ]);
    assertEquals(code, 0);
    assertEquals(out.split("\n"), [
      "UTC                   LOCAL",
      "2030-03-25T08:00:00Z  Mon 2030-03-25T09:00:00+01:00",
      "2030-04-01T07:00:00Z  Mon 2030-04-01T09:00:00+02:00",
      "",
    ]);
  });

  it("with --json, each slot is a line", async () => {
    const { json } = await lastcall([
      "cron",
      "next",
      "@daily",
      "--from",
      "2030-01-31T08:00Z",
      "--json",
    ]);
    assertEquals(json.length, 5);
    assertEquals(json[0], { at: "2030-02-01T00:00:00Z", local: "2030-02-01T00:00:00+00:00" });
  });

  it("without --from the slots are in the future", async () => {
    const before = new Date().toISOString();
    const { json } = await lastcall(["cron", "next", "* * * * * *", "-n", "1", "--json"]);
    assertEquals(json.length, 1);
    assertEquals(json[0].at > before.slice(0, 19), true);
  });

  it("a schedule that has ended has no slots", async () => {
    const { code, out } = await lastcall(["cron", "next", "0 0 9 1 1 * 2020"]);
    assertEquals([code, out], [0, "no slots\n"]);
  });

  it("a wrong schedule, time zone, time or count is wrong usage", async () => {
    for (
      const [args, part] of [
        [["61 * * * *"], "61"],
        [["0 9 * * 1", "--tz", "Mars/Olympus"], "Mars/Olympus"],
        [["0 9 * * 1", "--from", "monday"], "2030-01-31T08:00Z"],
        [["0 9 * * 1", "--count", "0"], "1 to 1000"],
        [[], "schedule"],
      ] as const
    ) {
      const { code, err } = await lastcall(["cron", "next", ...args]);
      assertEquals(code, 2, err);
      assertStringIncludes(err, part);
    }
  });

  it("without a subcommand the help is shown", async () => {
    const { code, err } = await lastcall(["cron"]);
    assertEquals(code, 2);
    assertMatch(err, /next .*<schedule>/);
  });
});
