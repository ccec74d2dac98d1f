import { test } from "node:test";
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { type CaseRecord, conformanceTable, missingEngines } from "../../tools/conformance.ts";

const records: readonly CaseRecord[] = [
  { engine: "Redis", runtime: "node", result: "passed" },
  { engine: "Redis", runtime: "node", result: "passed" },
  { engine: "Redis", runtime: "node", result: "lacking" },
  { engine: "Redis", runtime: "bun", result: "passed" },
  { engine: "Redis", runtime: "bun", result: "failed" },
];

test("the table counts the passed cases of each engine on each runtime", () => {
  const table = conformanceTable(records, ["node", "bun", "deno"]);
  assertMatch(table, /^contract +node +bun +deno$/m);
  assertMatch(table, /^Redis +2 of 3 +1 FAILED +skipped$/m);
  assertMatch(table, /^Deno KV +– +– +skipped$/m);
});

test("a required engine without passed cases on a runtime is reported", () => {
  assertEquals(missingEngines(records, ["node", "bun"], ["Redis"]), []);
  assertEquals(missingEngines(records, ["node", "deno"], ["Redis", "NATS"]), [
    "NATS on node",
    "Redis on deno",
    "NATS on deno",
  ]);
});

test("an unknown required engine is refused", () => {
  assertThrows(() => missingEngines(records, ["node"], ["Reddis"]), Error, "Reddis");
});
