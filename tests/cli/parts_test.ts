import { test } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { MailboxConnectionError, MailboxFullError } from "../../mod.ts";
import { connectionReason, toCliError } from "../../cli/_errors.ts";
import { progressLine } from "../../cli/_live.ts";
import { parseCount, parseDuration } from "../../cli/_options.ts";
import { ageText } from "../../cli/_print.ts";
import { batches } from "../../cli/commands/send.ts";

test("parseDuration reads units, and milliseconds without a unit", () => {
  const read = ["500ms", "30s", "2m", "1.5h", "7d", "250", "0"].map(parseDuration);
  assertEquals(read, [500, 30_000, 120_000, 5_400_000, 604_800_000, 250, 0]);
  for (const text of ["", "s", "-1s", "1 s", "1w", "1e3", "Infinity"]) {
    assertThrows(() => parseDuration(text), Error, "Write 500ms", text);
  }
});

test("parseCount accepts whole numbers within its bounds", () => {
  assertEquals(["1", "007", "10"].map(parseCount(1, 10)), [1, 7, 10]);
  for (const text of ["0", "11", "1.5", "-1", "1e1", "", "x"]) {
    assertThrows(() => parseCount(1, 10)(text), Error, "from 1 to 10", text);
  }
});

test("ageText uses the largest unit", () => {
  const ages = [-5, 12, 3_400, 150_000, 7_300_000, 200_000_000].map(ageText);
  assertEquals(ages, ["0 ms", "12 ms", "3 s", "3 min", "2 h", "2 d"]);
});

test("progressLine shows a bar if the total is known, and a count otherwise", () => {
  assertEquals(
    progressLine("sending", 30, 60, 2_000),
    "sending  ━━━━━━━━━━━━────────────  30 of 60 · 15 per second",
  );
  assertEquals(progressLine("sending", 30, undefined, 10), "sending  30");
  assertEquals(progressLine("sending", 0, 0, 10), `sending  ${"━".repeat(24)}  0 of 0`);
});

const never = new AbortController().signal;

test("batches hold the available items, up to the maximum", async () => {
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

test("toCliError classifies errors by their class and reason, not by their text", () => {
  const code = (error: unknown) => toCliError(error).code;
  const missing = new MailboxConnectionError("no ioredis", { reason: "client_missing" });
  assertEquals(code(missing), "usage");
  assertEquals(code(new MailboxConnectionError("which cannot be loaded")), "unavailable");
  assertEquals(code(new MailboxFullError("full")), "failed");
  assertEquals(code(new TypeError("a bug")), "unexpected");
  assertEquals(connectionReason(toCliError(missing)), "client_missing");
});
