import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { describe, none, parseCounts, sum } from "../../tools/test_counts.ts";

test("Node: cancelled tests count as failures", () => {
  const output = "✔ a (1ms)\nℹ tests 9\nℹ suites 0\nℹ pass 4\nℹ fail 1\nℹ cancelled 2\n" +
    "ℹ skipped 1\nℹ todo 1\nℹ duration_ms 148.4\n";
  assertEquals(parseCounts("node", output), { passed: 4, failed: 3, skipped: 2 });
});

test("Bun: missing counts are zero, and an error outside of tests is a failure", () => {
  assertEquals(parseCounts("bun", " 12 pass\n 0 fail\nRan 12 tests across 3 files.\n"), {
    passed: 12,
    failed: 0,
    skipped: 0,
  });
  assertEquals(parseCounts("bun", " 1 pass\n 2 skip\n 1 fail\n 1 error\n"), {
    passed: 1,
    failed: 1,
    skipped: 2,
  });
});

test("Deno: the summary is the last line, with or without steps", () => {
  assertEquals(parseCounts("deno", "\nok | 12 passed (3 steps) | 0 failed | 1 ignored (2s)\n"), {
    passed: 12,
    failed: 0,
    skipped: 1,
  });
  assertEquals(parseCounts("deno", "FAILED | 0 passed | 2 failed (11ms)"), {
    passed: 0,
    failed: 2,
    skipped: 0,
  });
});

test("a summary that a test prints is ignored", () => {
  assertEquals(parseCounts("node", "ℹ pass 99\n…\nℹ pass 1\nℹ fail 0\n").passed, 1);
});

test("output without a summary has no counts", () => {
  assertEquals(parseCounts("node", "Segmentation fault"), none);
  assertEquals(parseCounts("bun", ""), none);
  assertEquals(parseCounts("deno", "error: Uncaught"), none);
});

test("describe mentions skipped tests only if there are any", () => {
  const one = { passed: 1, failed: 0, skipped: 0 };
  assertEquals(describe(sum([one, one])), "2 passed, 0 failed");
  assertEquals(describe(sum([one, { ...none, skipped: 3 }])), "1 passed, 0 failed, 3 skipped");
});
