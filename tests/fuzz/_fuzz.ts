// Runs a target: first the inputs of its corpus, then random ones. docs: CONTRIBUTING.md ("Tests").

import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import * as fc from "fast-check";
import { seed } from "../_seed.ts";

/** A decoder or parser, and what must hold for every input. */
export interface Target<I> {
  /** The name of the test, and of the file in `corpus`. */
  readonly name: string;
  readonly inputs: fc.Arbitrary<I>;
  /** Throws when the property is violated. */
  readonly holds: (input: I) => void | Promise<void>;
  /** What a run costs in runs of a cheap target: a slow one gets fewer. @default {1} */
  readonly cost?: number;
  /** Why it cannot run here. */
  readonly skip?: string | false;
}

/** An input of a corpus. */
interface Kept<I> {
  readonly input: I;
  readonly why?: string;
}

/** What broke the property. */
export interface Violation<I> {
  readonly input: I;
  readonly error: unknown;
}

/** How many random inputs a cheap target gets. */
const RUNS = Number(process.env["LASTCALL_FUZZ"] || 100);
/** The processor time of one input. The longest inputs take some 100 ms, or far more where the time is quadratic. */
const INPUT_MS = 4_000;
/** Shrinking an input that takes long would take minutes. */
const TARGET_MS = process.env["LASTCALL_FUZZ"] ? 60_000 : 30_000;

/** Registers a test of each target. */
// deno-lint-ignore no-explicit-any -- targets of any inputs
export function fuzz(...targets: readonly Target<any>[]): void {
  for (const target of targets) {
    const { name, skip = false } = target;
    test(`fuzz ${name} (seed ${seed})`, { skip }, () => run(target));
  }
}

/** Returns the first violation in random inputs, shrunk unless told otherwise; undefined when there is none. */
export async function violationOf<I>(
  { inputs, holds, cost = 1 }: Target<I>,
  options: { readonly runs?: number; readonly shrinks?: boolean } = {},
): Promise<Violation<I> | undefined> {
  const property = fc.asyncProperty(inputs, (input) => checked(holds, input));
  const { failed, counterexample, errorInstance } = await fc.check(property, {
    seed,
    endOnFailure: options.shrinks === false,
    interruptAfterTimeLimit: TARGET_MS,
    numRuns: options.runs ?? Math.max(1, Math.ceil(RUNS / cost)),
  });
  if (!failed) return undefined;
  return { input: counterexample![0], error: errorInstance };
}

async function run(target: Target<unknown>): Promise<void> {
  for (const { input, why = "" } of corpusOf(target.name)) {
    try {
      await checked(target.holds, input);
    } catch (error) {
      throw new Error(
        `An input in tests/fuzz/corpus/${target.name}.json fails (${why}): ${shown(input)}\n${
          textOf(error)
        }`,
      );
    }
  }
  const violation = await violationOf(target);
  if (violation === undefined) return;
  const { input, error } = violation;
  throw new Error(
    `Fuzzing ${target.name} found a violation. LASTCALL_SEED=${seed} finds it again.\n` +
      `Add the input to tests/fuzz/corpus/${target.name}.json: {"input": ${shown(input)}}\n${
        textOf(error)
      }`,
    { cause: error },
  );
}

/** Calls `holds`, and throws when the input changed the prototype of all objects, or took too long. */
async function checked<I>(holds: Target<I>["holds"], input: I): Promise<void> {
  const ms = await cpuMsOf(() => holds(input));
  if (ms > INPUT_MS) throw new Error(`the input took ${Math.round(ms)} ms`);
  const added = Reflect.ownKeys(Object.prototype).filter((name) => !NATIVE.has(name));
  for (const name of added) delete (Object.prototype as Record<PropertyKey, unknown>)[name];
  if (added.length > 0) throw new Error(`Object.prototype got ${added.map(String).join(", ")}`);
}

/** Measures the time of the processor: on a busy machine the clock says nothing. */
async function cpuMsOf(work: () => void | Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const NATIVE: ReadonlySet<PropertyKey> = new Set(Reflect.ownKeys(Object.prototype));

/** Returns the kept inputs of a target; none where it has no file. */
export function corpusOf(name: string): readonly Kept<unknown>[] {
  const file = new URL(`./corpus/${name}.json`, import.meta.url);
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8"), revived) : [];
}

/**
 * Values without JSON, which `{"$": "NaN"}` stands for in a corpus. A long text is
 * `{"$": "repeat", "text": "{", "times": 100000, "end": "}"}`.
 */
const SPECIAL: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
  ["-0", -0],
  ["undefined", undefined],
  ["half a surrogate pair", "\ud800"], // which the formatter refuses in JSON
]);

function revived(_: string, value: unknown): unknown {
  const { $, text, times, end = "" } = Object(value);
  if ($ === "repeat") return text.repeat(times) + end;
  return SPECIAL.has($) && Object.keys(value as object).length === 1 ? SPECIAL.get($) : value;
}

/** Returns an input as the JSON that a corpus has. */
function shown(input: unknown): string {
  const special = (value: unknown) => {
    return [...SPECIAL].find(([, it]) => Object.is(it, value))?.[0];
  };
  return JSON.stringify(input, (_, value) => {
    const $ = special(value);
    return $ === undefined ? value : { $ };
  });
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.stack ?? error.message : String(error);
}
