import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { Schedule } from "../../src/cron/mod.ts";

/** Returns the slots of some days, as `03-30T01:00`. */
function slots(pattern: string, timezone: string, from: string, days: number): string[] {
  const schedule = new Schedule(pattern, timezone);
  const start = new Date(`${from}T00:00Z`);
  const end = start.getTime() + days * 86_400_000;
  const found: string[] = [];
  let slot = schedule.next(start);
  while (slot !== undefined && slot.getTime() <= end) {
    found.push(slot.toISOString().slice(5, 16));
    slot = schedule.next(slot);
  }
  return found;
}

describe("Schedule", () => {
  it("a daily slot that daylight saving leaves out comes when the clock has jumped", () => {
    assertEquals(slots("30 2 * * *", "Europe/Berlin", "2025-03-29", 3), [
      "03-29T01:30",
      "03-30T01:00",
      "03-31T00:30",
    ]);
  });

  it("a daily slot whose time occurs twice comes once, at the first", () => {
    assertEquals(slots("30 2 * * *", "Europe/Berlin", "2025-10-25", 3), [
      "10-25T00:30",
      "10-26T00:30",
      "10-27T01:30",
    ]);
  });

  it("an hourly schedule has a slot in every hour, through both changes of the clock", () => {
    assertEquals(slots("0 * * * *", "Europe/Berlin", "2025-03-29", 3).length, 72);
    assertEquals(slots("0 * * * *", "Europe/Berlin", "2025-10-25", 3).length, 72);
  });

  it("the slots do not depend on where the search begins", () => {
    for (
      const [pattern, timezone] of [
        ["30 2 * * *", "Europe/Berlin"],
        ["15 2,3 * * *", "Europe/Berlin"],
        ["*/15 * * * *", "Europe/Berlin"],
        ["30 1 * * *", "America/New_York"],
        ["0,30 1-3 * * *", "Australia/Lord_Howe"],
      ] as const
    ) {
      const schedule = new Schedule(pattern, timezone);
      // Both changes of the clock in each of the zones.
      for (const day of ["2025-03-08", "2025-03-29", "2025-04-05", "2025-10-04", "2025-10-25"]) {
        const from = Date.parse(`${day}T00:00Z`);
        const to = from + 2 * 86_400_000;
        const all: number[] = [];
        let slot = schedule.next(new Date(from))!.getTime();
        for (; slot <= to; slot = schedule.next(new Date(slot))!.getTime()) all.push(slot);
        for (let time = from; time < all.at(-1)!; time += 300_000) {
          const next = all.find((it) => it > time);
          const latest = all.findLast((it) => it <= time);
          const found = schedule.next(new Date(time))!.getTime();
          assertEquals(found, next, `${pattern} after ${new Date(time).toISOString()}`);
          if (latest === undefined) continue;
          const before = schedule.latest(new Date(time + 999))!.getTime();
          assertEquals(before, latest, `${pattern} until ${new Date(time).toISOString()}`);
        }
      }
    }
  });

  it("a slot is its own latest slot, and never its own next", () => {
    const schedule = new Schedule("0 9 * * 1", "Europe/Berlin");
    const slot = new Date("2030-01-07T08:00Z");
    assertEquals(schedule.latest(slot), slot);
    assertEquals(schedule.latest(new Date(slot.getTime() - 1))?.getDate(), 31);
    assertEquals(schedule.next(new Date(slot.getTime() - 1)), slot);
    assertEquals(schedule.next(slot)?.getDate(), 14);
  });

  it("a schedule with years ends", () => {
    const schedule = new Schedule("0 0 9 1 1 * 2030");
    assertEquals(schedule.next(new Date(0))?.toISOString(), "2030-01-01T09:00:00.000Z");
    assertEquals(schedule.next(new Date("2030-01-01T09:00Z")), undefined);
  });

  it("a pattern or a time zone that is invalid is refused, with its value", () => {
    const invalid = [
      ["61 * * * *", "UTC", "61"],
      ["every monday", "UTC", "every monday"],
      ["", "UTC", "expected a cron pattern"],
      ["0 0 30 2 *", "UTC", "no date matches"],
      ["2030-01-01T00:00:00", "UTC", "expected a cron pattern"],
      [undefined, "UTC", "undefined"],
      ["0 9 * * 1", "Mars/Olympus", "Mars/Olympus"],
      ["0 9 * * 1", "", 'got ""'],
      ["0 9 * * 1", 1, "got 1"],
    ] as const;
    for (const [pattern, timezone, part] of invalid) {
      assertThrows(() => new Schedule(pattern as string, timezone as string), TypeError, part);
    }
  });
});
