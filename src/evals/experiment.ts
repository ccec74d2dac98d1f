import { show } from "../_checks.ts";

/** A way of doing it, to be compared with others. */
export interface Experiment {
  /** Unique in its evaluation. */
  readonly name: string;
  /** What is different about it, as a model, a temperature or a prompt; plain data. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** Refuses experiments that cannot be told apart. */
export function checkExperiments(experiments: readonly Experiment[]): readonly Experiment[] {
  if (!Array.isArray(experiments) || experiments.length === 0) {
    throw new TypeError(
      `Invalid experiments: expected a list of at least one, got ${show(experiments)}`,
    );
  }
  const names = new Set<string>();
  for (const experiment of experiments) {
    const name: unknown = Object(experiment).name;
    if (typeof name !== "string" || name === "") {
      throw new TypeError(`Invalid experiment: expected a name that is a text, got ${show(name)}`);
    }
    if (names.has(name)) throw new TypeError(`Invalid experiments: two are called ${show(name)}`);
    names.add(name);
  }
  return experiments;
}
