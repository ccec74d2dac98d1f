import { test } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { batches } from "../../cli/_batches.ts";
import { ageText, parseCount, parseDuration } from "../../cli/_duration.ts";
import { progressLine } from "../../cli/_progress.ts";

test("durations are read with their unit, and as milliseconds without one", () => {
  const read = ["500ms", "30s", "2m", "1.5h", "250", "0"].map(parseDuration);
  assertEquals(read, [500, 30_000, 120_000, 5_400_000, 250, 0]);
  for (const text of ["", "s", "-1s", "1 s", "1d", "1e3", "Infinity"]) {
    assertThrows(() => parseDuration(text), Error, "Write 500ms", text);
  }
});

test("counts are whole numbers within their bounds", () => {
  assertEquals(["1", "007", "10"].map(parseCount(1, 10)), [1, 7, 10]);
  for (const text of ["0", "11", "1.5", "-1", "1e1", "", "x"]) {
    assertThrows(() => parseCount(1, 10)(text), Error, "from 1 to 10", text);
  }
});

test("ages are told in the unit that fits", () => {
  const ages = [-5, 12, 3_400, 150_000, 7_300_000, 200_000_000].map(ageText);
  assertEquals(ages, ["0 ms", "12 ms", "3 s", "3 min", "2 h", "2 d"]);
});

test("progress is a bar where the end is known, and a count where it is not", () => {
  assertEquals(
    progressLine("sending", 30, 60, 2_000),
    "sending  ━━━━━━━━━━━━────────────  30 of 60 · 15 a second",
  );
  assertEquals(progressLine("sending", 30, undefined, 10), "sending  30");
  assertEquals(progressLine("sending", 0, 0, 10), `sending  ${"━".repeat(24)}  0 of 0`);
});

const never = new AbortController().signal;

test("batches hold what is there, up to their size, and what comes late comes in the next", async () => {
  const found: number[][] = [];
  let release = () => {};
  const later = new Promise<void>((resolve) => release = resolve);
  async function* source() {
    yield* [1, 2, 3];
    await later;
    yield 4;
  }
  for await (const batch of batches(source(), 2, never)) {
    found.push(batch);
    if (batch.includes(3)) release();
  }
  assertEquals(found, [[1, 2], [3], [4]]);
  for await (const batch of batches((async function* () {})(), 2, never)) found.push(batch);
  assertEquals(found.length, 3);
});
