import { globSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { assertEquals } from "@std/assert";
import { root } from "../tools/runtimes.ts";

/** Files with a fixed seed, and why the seed must be fixed. */
const FIXED: Readonly<Record<string, string>> = {
  "tests/chaos/schedule_test.ts": "a seed of an earlier run must give the same schedule of faults",
  "tests/chaos/checks_test.ts": "the options of a run that does not take place",
  "tests/chaos/result_test.ts": "the seed is a part of the text",
};

/** A seed that is fixed, or that nothing shows. */
const USES = [
  /\bseed:\s*[\d-]/, // an option with a number
  /\bseededRandom\(\s*[\d-]/,
  /\bMath\.random\(/, // shows no seed, and cannot be replayed
];

/** Returns the lines of a test that have a fixed seed, or none that can be replayed. */
function violations(source: string): readonly number[] {
  const found = USES.flatMap((use) => {
    return source.split("\n").flatMap((line, i) => use.test(line) ? [i + 1] : []);
  });
  // Without a seed, fast-check takes one of its own.
  for (const { index } of source.matchAll(/\bfc\.(?:assert|check)\(/g)) {
    const call = source.slice(index, index + lengthOfCall(source.slice(index)));
    if (!/\bseed\b/.test(call)) found.push(source.slice(0, index).split("\n").length);
  }
  return found;
}

/** Returns the length of the call with which a text begins. */
function lengthOfCall(text: string): number {
  let depth = 0;
  for (let i = text.indexOf("("); i < text.length; i++) {
    if (text[i] === "(") depth++;
    if (text[i] === ")" && --depth === 0) return i + 1;
  }
  return text.length;
}

test("every random test takes a fresh seed, which LASTCALL_SEED replays", () => {
  const paths = globSync("tests/**/*.ts", { cwd: root }).map((path) => path.replaceAll("\\", "/"));
  const found = paths.flatMap((path) => {
    if (path in FIXED || path === "tests/seeds_test.ts" || path === "tests/layering_test.ts") {
      return [];
    }
    if (path === "tests/_seed.ts") return []; // it makes the seed
    return violations(readFileSync(`${root}/${path}`, "utf8")).map((line) => `${path}:${line}`);
  });
  assertEquals(found, [], "take `seed` of tests/_seed.ts, and show it in the name of the test");
});

test("the search for fixed seeds finds them", () => {
  assertEquals(violations("await fc.assert(property, { numRuns: 5, seed });"), []);
  assertEquals(violations("await fc.assert(property);"), [1]);
  assertEquals(violations("\nfc.assert(\n  fc.property(a, () => b()),\n  { numRuns: 5 },\n);"), [
    2,
  ]);
  assertEquals(violations("fc.check(p, {\n  seed: 20260301,\n});"), [2]);
  assertEquals(violations("const random = seededRandom(7);"), [1]);
  assertEquals(violations("const random = seededRandom(seed + i);"), []);
  assertEquals(violations("const n = Math.random();"), [1]);
});
