import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assertEquals, assertGreaterOrEqual, assertThrows } from "@std/assert";
import { check, findTools, readFinding, type Tools } from "../../model/checker.ts";
import { configurations } from "../../model/configurations.ts";
import { variants } from "../../model/variants.ts";
import { root } from "../../tools/runtimes.ts";

/** The time limit of each program. A search takes about a second. */
const TIMEOUT_MS = 200_000;

const tools = findTools();
const skip = typeof tools === "string" && tools;

describe("the model", { concurrency: 2 }, () => {
  for (const configuration of configurations.filter(({ quick }) => quick)) {
    it(`holds: ${configuration.name}`, { skip }, async () => {
      const { violated, states } = await check(configuration, tools as Tools, TIMEOUT_MS);
      assertEquals(violated, undefined);
      assertGreaterOrEqual(states, configuration.atLeast);
    });
  }

  for (const variant of variants) {
    it(`fails when ${variant.name}`, { skip }, async () => {
      const { violated } = await check(variant, tools as Tools, TIMEOUT_MS);
      assertEquals(violated, variant.violates);
    });
  }
});

describe("the runner of the model", () => {
  it("has a variant for every bug of the model", () => {
    const sources = ["lastcall", "engine", "worker"].map((name) =>
      readFileSync(join(root, "model", `${name}.pml`), "utf8")
    );
    const switches = new Set(sources.join().match(/\bBUG_\w+/g));
    const used = variants.map(({ bug }) => bug).filter((it) => it.startsWith("BUG_"));
    assertEquals([...switches].sort(), used.sort());
  });

  it("refuses a search that did not see all states", () => {
    const summary = (line: string) =>
      `${line}\nState-vector 9 byte, depth reached 7, errors: 0\n  12 states, stored\n` +
      "  20 transitions (= stored+matched)\npan: elapsed time 0 seconds\n";
    assertEquals(readFinding(summary(""), "", undefined).states, 12);
    const cut = "error: max search depth too small";
    assertThrows(() => readFinding(summary(cut), "", undefined), Error, "did not complete");
    const full = "pan: reached -DMEMLIM bound: out of memory";
    assertThrows(() => readFinding(summary(full), "", undefined), Error, "did not complete");
  });

  it("reads which property is violated", () => {
    const rest =
      "\nWarning: Search not completed\ndepth reached 7, errors: 1\n  5 states, stored\n";
    const asserted = `pan:1: assertion violated key_order (at depth 7)${rest}`;
    assertEquals(readFinding(asserted, "", undefined).violated, "key_order");
    const cycle = `pan:1: acceptance cycle (at depth 7)${rest}`;
    assertEquals(readFinding(cycle, "", "stop_ends").violated, "stop_ends");
    const stuck = `pan:1: invalid end state (at depth 7)${rest}`;
    assertThrows(() => readFinding(stuck, "", undefined), Error, "did not complete");
  });
});
