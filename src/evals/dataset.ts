import { checkCount, show } from "../_checks.ts";

/** One input of a dataset, with the expected output. */
export interface Sample<I, E = unknown> {
  /** Unique in its dataset. */
  readonly id: string;
  /** The request for the agent. */
  readonly input: I;
  /** The value that an evaluator compares the output with. */
  readonly expected?: E;
  /** Labels for `Dataset.filter`. The evaluation ignores them. */
  readonly tags?: readonly string[];
}

/** An invalid sample of a dataset. */
export interface DatasetProblem {
  /** The number of the line, or of the sample when the dataset was not parsed from text; from 1. */
  readonly line: number;
  /** The reason. */
  readonly why: string;
}

/** A dataset is invalid. The error lists all problems. */
export class DatasetError extends Error {
  /** The class name, for logs and for checks without `instanceof`. */
  override readonly name = "DatasetError";
  /** All problems, in the order of the lines. */
  readonly problems: readonly DatasetProblem[];

  /** Creates the error. `unit` says what the numbers in `problems` count. */
  constructor(problems: readonly DatasetProblem[], unit: "line" | "sample") {
    const shown = problems.slice(0, MAX_SHOWN_PROBLEMS).map(({ line, why }) =>
      `${unit} ${line}: ${why}`
    );
    const hidden = problems.length - shown.length;
    super(
      `Invalid dataset: ${problems.length} invalid ${unit}${problems.length === 1 ? "" : "s"}: ` +
        shown.join("; ") + (hidden > 0 ? `; and ${hidden} more` : ""),
    );
    this.problems = problems;
  }
}

/** The error message lists the first ones; `problems` has all. */
const MAX_SHOWN_PROBLEMS = 10;

/** A variant of the agent that an evaluation compares with others. */
export interface Experiment {
  /** Unique in its evaluation. */
  readonly name: string;
  /** The parameters of the variant, such as a model, a temperature or a prompt; plain data. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/**
 * An ordered list of samples with unique ids.
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

  /**
   * Creates a dataset.
   *
   * @throws {DatasetError} when samples are invalid or share an id.
   */
  constructor(samples: Iterable<Sample<I, E>>) {
    this.#samples = checkLines(
      [...samples].map((sample, i) => ({ line: i + 1, sample })),
      "sample",
    );
  }

  /**
   * Parses JSON Lines: one sample per line. Empty lines are ignored.
   *
   * @throws {DatasetError} when lines are invalid or share an id.
   */
  static parse<I, E = unknown>(text: string): Dataset<I, E> {
    const lines: Line<I, E>[] = text.replace(/^\uFEFF/, "").split(/\r?\n/).flatMap((line, i) => {
      return line.trim() === "" ? [] : [{ line: i + 1, ...parseLine<I, E>(line) }];
    });
    return new Dataset(checkLines(lines, "line"));
  }

  /** The number of samples. */
  get size(): number {
    return this.#samples.length;
  }

  /** Iterates over the samples in order. */
  [Symbol.iterator](): Iterator<Sample<I, E>> {
    return this.#samples[Symbol.iterator]();
  }

  /** Returns a dataset with the samples for which `predicate` returns true, in the same order. */
  filter(predicate: (sample: Sample<I, E>) => boolean): Dataset<I, E> {
    return new Dataset(this.#samples.filter(predicate));
  }

  /** Returns a dataset with the first `count` samples. */
  take(count: number): Dataset<I, E> {
    return new Dataset(this.#samples.slice(0, checkCount("count", count)));
  }

  /** Returns the samples as JSON Lines, which {@linkcode Dataset.parse} reads. */
  toJsonl(): string {
    return this.#samples.map((sample) => `${JSON.stringify(sample)}\n`).join("");
  }
}

type Line<I, E> = { readonly line: number } & ParsedLine<I, E>;
type ParsedLine<I, E> = { readonly sample?: Sample<I, E>; readonly why?: string };

function parseLine<I, E>(line: string): ParsedLine<I, E> {
  try {
    return { sample: JSON.parse(line) };
  } catch (error) {
    return { why: `invalid JSON (${(error as Error).message})` };
  }
}

function checkLines<I, E>(
  lines: readonly Line<I, E>[],
  unit: "line" | "sample",
): readonly Sample<I, E>[] {
  const firstLines = new Map<string, number>();
  const problems = lines.flatMap(({ line, sample, why = sampleProblem(sample) }) => {
    if (why !== undefined) return [{ line, why }];
    const { id } = sample!;
    const first = firstLines.get(id);
    if (first !== undefined) {
      return [{ line, why: `duplicate id ${show(id)}, first used in ${unit} ${first}` }];
    }
    firstLines.set(id, line);
    return [];
  });
  if (problems.length > 0) throw new DatasetError(problems, unit);
  return lines.map(({ sample }) => sample!);
}

/** Returns false for a text with half of a surrogate pair, of which no id can be made. */
export function isWellFormed(text: string): boolean {
  return !/\p{Cs}/u.test(text);
}

/** Returns why a value is not a valid sample, or undefined when it is one. */
export function sampleProblem(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return `expected an object, got ${show(value)}`;
  }
  const { id, input, tags } = value as Readonly<Record<string, unknown>>;
  if (typeof id !== "string" || id === "") {
    return `expected "id" to be a non-empty string, got ${show(id)}`;
  }
  if (!isWellFormed(id)) return `expected "id" without unpaired surrogates, got ${show(id)}`;
  if (input === undefined) return `expected an "input" in ${show(value)}`;
  const tagged = tags === undefined ||
    (Array.isArray(tags) && tags.every((tag) => typeof tag === "string"));
  return tagged ? undefined : `expected "tags" to be an array of strings, got ${show(tags)}`;
}

/**
 * Returns the experiments unchanged.
 *
 * @throws {TypeError} when there are none, or when names are missing or used twice.
 */
export function checkExperiments(experiments: readonly Experiment[]): readonly Experiment[] {
  if (!Array.isArray(experiments) || experiments.length === 0) {
    throw new TypeError(
      `Invalid experiments: expected an array of at least one, got ${show(experiments)}`,
    );
  }
  const names = new Set<string>();
  for (const experiment of experiments) {
    const name: unknown = Object(experiment).name;
    if (typeof name !== "string" || name === "") {
      throw new TypeError(`Invalid experiment: expected a non-empty name, got ${show(name)}`);
    }
    if (!isWellFormed(name)) {
      throw new TypeError(
        `Invalid experiment: expected a name without unpaired surrogates, got ${show(name)}`,
      );
    }
    if (names.has(name)) {
      throw new TypeError(`Invalid experiments: duplicate name ${show(name)}`);
    }
    names.add(name);
  }
  return experiments;
}
