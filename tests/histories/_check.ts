// The property: no history finds a violation. On a failure, it prints the smallest history that has one.

import process from "node:process";
import * as fc from "fast-check";
import { seed } from "../_seed.ts";
import { histories, type Step } from "./_calls.ts";
import { type Counts, Run, type RunOptions } from "./_run.ts";
import type { Site } from "./_site.ts";
import { Violation } from "./_worlds.ts";

/** How long the search for a smaller history may take. */
const SHRINK_MS = 20_000;

const wanted = process.env["LASTCALL_HISTORIES"];

/** True when `LASTCALL_HISTORIES` sets the number of histories. */
export const isLong: boolean = wanted !== undefined;

/** How many histories a test runs: `usual`, or what `LASTCALL_HISTORIES` says. */
export function sizeOf(usual: number): number {
  return wanted === undefined ? usual : Number(wanted);
}

/** A history that an engine answers wrongly. */
export class Failure extends Error {
  override readonly name = "Failure";
  /** What happened, one call per line. */
  readonly lines: readonly string[];

  constructor(lines: readonly string[], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.lines = lines;
  }
}

let queues = 0;

/** Runs a history on a new queue. */
async function runOn(
  site: Site,
  steps: readonly Step[],
  options: RunOptions,
): Promise<string[]> {
  await using queue = await site.open(
    `histories-${process.pid}-${Date.now()}-${++queues}`,
  );
  const run = new Run(site, queue, options);
  try {
    await run.run(steps);
  } catch (error) {
    throw new Failure(run.lines, error);
  }
  return run.lines;
}

/** Runs histories until one fails, then looks for a smaller one that fails too. */
export async function search(
  faults: boolean,
  numRuns: number,
  act: (steps: readonly Step[]) => Promise<void>,
  { seed: at = seed, shrinkMs = SHRINK_MS }: {
    readonly seed?: number;
    readonly shrinkMs?: number;
  } = {},
): Promise<Failure | undefined> {
  let failure: Failure | undefined;
  let endsAt = Infinity;
  const property = fc.asyncProperty(histories(faults), async (steps) => {
    if (Date.now() > endsAt) return; // a smaller history has to be found in time
    try {
      await act(steps);
    } catch (error) {
      failure = error instanceof Failure ? error : new Failure([], error);
      endsAt = Math.min(endsAt, Date.now() + shrinkMs);
      throw error;
    }
  });
  await fc.check(property, { numRuns, seed: at, endOnFailure: shrinkMs === 0 });
  return failure;
}

/** Runs random histories on an engine. Returns what happened, or throws with the smallest wrong history. */
export async function holds(site: Site, numRuns: number): Promise<Counts> {
  const counts = { histories: 0, calls: 0, lost: 0, unfinished: 0 };
  const failure = await search(true, numRuns, async (steps) => {
    await runOn(site, steps, { counts });
  });
  if (failure !== undefined) throw violationOf(site, failure);
  return counts;
}

/** Runs histories without faults on an engine and on another one: both give the same answers. */
export async function agrees(
  site: Site,
  reference: Site,
  numRuns: number,
): Promise<Counts> {
  const counts = { histories: 0, calls: 0, lost: 0, unfinished: 0 };
  await using queue = await site.open(
    `histories-${process.pid}-${Date.now()}-${++queues}`,
  );
  const { capabilities } = queue.clients[0]!.mailbox;
  const options = { counts, capabilities, deterministic: true };
  // Both show what this engine can show.
  const other = site.look === undefined ? reference : { ...reference, look: site.look };
  const failure = await search(false, numRuns, async (steps) => {
    const lines = await runOn(site, steps, options);
    const expected = await runOn(other, steps, options);
    const at = lines.findIndex((line, i) => line !== expected[i]);
    if (at < 0) return;
    throw new Failure(
      lines.slice(0, at + 1),
      `${reference.engine} has: ${expected[at]}`,
    );
  });
  if (failure !== undefined) throw violationOf(site, failure);
  return counts;
}

/** Returns the first failure, not made smaller, and after how many histories it was found. */
export async function findFailure(
  site: Site,
  numRuns: number,
  at: number,
): Promise<
  { readonly failure: Failure | undefined; readonly histories: number }
> {
  const counts = { histories: 0, calls: 0, lost: 0, unfinished: 0 };
  const act = async (steps: readonly Step[]) => void await runOn(site, steps, { counts });
  const failure = await search(true, numRuns, act, { seed: at, shrinkMs: 0 });
  return { failure, histories: counts.histories };
}

function violationOf(
  { engine }: Site,
  { lines, message, cause }: Failure,
): Error {
  const text = `${engine} gave a wrong answer in this history (process: call → answer):\n  ${
    lines.join("\n  ")
  }\n${message}\nReplay: LASTCALL_SEED=${seed}`;
  // The stack of another error tells where a call failed that no fault explains.
  return new Error(text, cause instanceof Violation ? {} : { cause });
}
