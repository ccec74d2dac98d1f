/// <reference lib="dom" />

// The status of 1,000 loops: how long it takes to tell it, and to show it on the live page.

import { findChromium, launchChromium } from "../tools/chromium.ts";
import type * as Lastcall from "../mod.ts";
import { freePort } from "../tests/engines/_servers.ts";
import { resultOf } from "./_children.ts";
import { atMost, type Goal, median, ms, type Part, SPREAD, spread } from "./_figures.ts";
import type { Subject } from "./_subject.ts";

interface Told {
  readonly answers: readonly number[];
  readonly events: readonly number[];
  readonly answerBytes: number;
  readonly eventBytes: number;
}

const LOOPS = 1_000;
const ROUNDS = 30;
const UPDATES = 10;
const GOAL_MS = 50;

/** Measures `/status` and an event on every runtime, and the page's update in Chromium. */
export async function status(subject: Subject): Promise<Part> {
  const table: string[][] = [["what", "kB", ...SPREAD]];
  const goals: Goal[] = [];
  const add = (what: string, times: readonly number[], bytes?: number) => {
    table.push([what, bytes === undefined ? "" : (bytes / 1_000).toFixed(0), ...spread(times)]);
    goals.push(atMost(`${LOOPS} loops, ${what},`, median(times), GOAL_MS, (it) => `${ms(it)} ms`));
  };
  for (const runtime of ["node", "bun", "deno"] as const) {
    const entries = [subject.entry(runtime), subject.entry(runtime, "src/health/mod")];
    const args = [...entries, String(LOOPS), String(ROUNDS)];
    const told = await resultOf<Told>(runtime, "status.ts", args, { timeoutMs: 60_000 });
    add(`/status on ${runtime}`, told.answers, told.answerBytes);
    add(`an event on ${runtime}`, told.events, told.eventBytes);
  }
  const title = `The status of ${LOOPS} loops with 10 in flight each`;
  const path = findChromium();
  if (path === undefined) return { title, table, goals, notes: ["There is no Chromium here."] };
  add("an update of the page", await updates(subject.entry("node"), path));
  return { title, table, goals };
}

/** The milliseconds that the page's listener takes, in which it draws. */
async function updates(entry: string, path: string): Promise<readonly number[]> {
  const { LoopGroup, silentLog, StepLoop }: typeof Lastcall = await import(entry);
  const loops = Array.from(
    { length: LOOPS },
    (_, i) => new StepLoop(`loop ${i}`, ({ sleep }) => sleep(500)),
  );
  const healthPort = await freePort();
  const options = { healthPort, healthHost: "127.0.0.1", log: silentLog };
  const group = new LoopGroup(loops, options);
  const run = group.run({ installSignals: false });
  while (group.health().phase !== "running") await new Promise((done) => setTimeout(done, 5));
  const browser = await launchChromium(path);
  try {
    const page = await browser.newPage();
    await page.addInitScript(() => {
      const took: number[] = [];
      const { prototype } = EventSource;
      const add = prototype.addEventListener;
      const addTimed = function (this: EventSource, kind: string, listener: EventListener) {
        add.call(this, kind, (event) => {
          const began = performance.now();
          listener(event);
          document.body.getBoundingClientRect(); // laid out as well
          took.push(performance.now() - began);
        });
      };
      Object.assign(globalThis, { took });
      Object.assign(prototype, { addEventListener: addTimed });
    });
    await page.goto(`http://127.0.0.1:${healthPort}/`);
    const took = await page.waitForFunction((count) => {
      const { took } = globalThis as unknown as { readonly took: readonly number[] };
      return took.length >= count ? took : undefined;
    }, UPDATES);
    return await took.jsonValue() as readonly number[];
  } finally {
    await browser.close();
    await group.shutdown();
    await run;
  }
}
