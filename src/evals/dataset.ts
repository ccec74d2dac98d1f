import { checkCount, show } from "../_checks.ts";

/** One thing to try. */
export interface Sample<I, E = unknown> {
  /** Unique in its dataset. */
  readonly id: string;
  /** What the agent is asked. */
  readonly input: I;
  /** What an evaluator compares the output with. */
  readonly expected?: E;
  /** For `filter`: they mean nothing else. */
  readonly tags?: readonly string[];
}

/** Something that is wrong with a dataset. */
export interface DatasetProblem {
  /** The number of the line, or of the sample where there are no lines; from 1. */
  readonly line: number;
  /** What is wrong there. */
  readonly why: string;
}

/** A dataset that cannot be used, with everything that is wrong with it. */
export class DatasetError extends Error {
  /** What a log or a `catch` tells it by. */
  override readonly name = "DatasetError";
  /** All of them, in the order of the lines. */
  readonly problems: readonly DatasetProblem[];

  /** `unit` is what the problems are numbered by. */
  constructor(problems: readonly DatasetProblem[], unit: "line" | "sample") {
    const shown = problems.slice(0, MOST_SHOWN).map(({ line, why }) => `${unit} ${line}: ${why}`);
    const hidden = problems.length - shown.length;
    super(
      `The dataset has ${problems.length} bad ${unit}${problems.length === 1 ? "" : "s"}: ` +
        shown.join("; ") + (hidden > 0 ? `; and ${hidden} more` : ""),
    );
    this.problems = problems;
  }
}

/** As many as a person reads in an error message; all are in `problems`. */
const MOST_SHOWN = 10;

/**
 * Samples in an order, each with an id of its own.
 *
 * @example
 * ```ts
 * import { Dataset } from "@lastcall/lastcall/evals";
 *
 * const capitals = Dataset.parse<string, string>(`
 *   {"id": "fr", "input": "France", "expected": "Paris", "tags": ["europe"]}
 *   {"id": "jp", "input": "Japan", "expected": "Tokyo"}
 * `);
 * console.assert(capitals.size === 2);
 * console.assert(capitals.filter(({ tags }) => tags?.includes("europe") ?? false).size === 1);
 * ```
 */
export class Dataset<I, E = unknown> implements Iterable<Sample<I, E>> {
  readonly #samples: readonly Sample<I, E>[];

  /** Throws a {@linkcode DatasetError} that names every sample that is none. */
  constructor(samples: Iterable<Sample<I, E>>) {
    this.#samples = checked([...samples].map((sample, i) => ({ line: i + 1, sample })), "sample");
  }

  /**
   * Reads one sample a line, as JSON. Throws a {@linkcode DatasetError} that names every line that is no
   * sample. Empty lines do not count.
   */
  static parse<I, E = unknown>(text: string): Dataset<I, E> {
    const read: Read<I, E>[] = text.replace(/^\uFEFF/, "").split(/\r?\n/).flatMap((line, i) => {
      return line.trim() === "" ? [] : [{ line: i + 1, ...parseLine<I, E>(line) }];
    });
    return new Dataset(checked(read, "line"));
  }

  /** How many samples it has. */
  get size(): number {
    return this.#samples.length;
  }

  /** The samples, in their order. */
  [Symbol.iterator](): Iterator<Sample<I, E>> {
    return this.#samples[Symbol.iterator]();
  }

  /** Those that fit, in the same order. */
  filter(fits: (sample: Sample<I, E>) => boolean): Dataset<I, E> {
    return new Dataset(this.#samples.filter(fits));
  }

  /** The first `count`. */
  take(count: number): Dataset<I, E> {
    return new Dataset(this.#samples.slice(0, checkCount("count", count)));
  }

  /** One sample a line, as {@linkcode Dataset.parse} reads it. */
  toJsonl(): string {
    return this.#samples.map((sample) => `${JSON.stringify(sample)}\n`).join("");
  }
}

type Read<I, E> = { readonly line: number } & ParsedLine<I, E>;
type ParsedLine<I, E> = { readonly sample?: Sample<I, E>; readonly why?: string };

function parseLine<I, E>(line: string): ParsedLine<I, E> {
  try {
    return { sample: JSON.parse(line) };
  } catch (error) {
    return { why: `no JSON (${(error as Error).message})` };
  }
}

function checked<I, E>(
  all: readonly Read<I, E>[],
  unit: "line" | "sample",
): readonly Sample<I, E>[] {
  const firstLines = new Map<string, number>();
  const problems = all.flatMap(({ line, sample, why = problemOf(sample) }) => {
    if (why !== undefined) return [{ line, why }];
    const { id } = sample!;
    const first = firstLines.get(id);
    if (first !== undefined) {
      return [{ line, why: `the id ${show(id)} is that of ${unit} ${first}` }];
    }
    firstLines.set(id, line);
    return [];
  });
  if (problems.length > 0) throw new DatasetError(problems, unit);
  return all.map(({ sample }) => sample!);
}

/** Why something is no sample. */
export function problemOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return `expected an object, got ${show(value)}`;
  }
  const { id, input, tags } = value as Readonly<Record<string, unknown>>;
  if (typeof id !== "string" || id === "") {
    return `expected an "id" that is a text, got ${show(id)}`;
  }
  if (input === undefined) return `expected an "input" in ${show(value)}`;
  const tagged = tags === undefined ||
    (Array.isArray(tags) && tags.every((tag) => typeof tag === "string"));
  return tagged ? undefined : `expected "tags" to be a list of texts, got ${show(tags)}`;
}
