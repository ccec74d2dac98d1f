// What happened in a simulation, in order: for the reader of a failure, and as the hash that compares two runs.

import { createHash } from "node:crypto";
import { errorText } from "../src/errors.ts";
import type { Log } from "../src/log.ts";

/** The most lines of a timeline that is printed. */
const MOST_LINES = 400;

/** Records what happens. */
export class Timeline {
  readonly #now: () => number;
  readonly #lines: string[] = [];

  /** `now` returns the time of the simulation in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Adds a line: who did what. */
  add(actor: string, text: string): void {
    this.#lines.push(`${this.#now().toFixed(1).padStart(9)} ms  ${actor.padEnd(7)} ${text}`);
  }

  /** Returns a log whose warnings and errors are lines. */
  log(actor: string): Log {
    const note = (message: string, properties: Record<string, unknown> = {}) => {
      const { error, id, ids } = properties;
      const what = [id ?? ids, error === undefined ? undefined : errorText(error)];
      const details = what.filter((it) => it !== undefined).join(": ");
      this.add(actor, `log: ${message}${details === "" ? "" : ` (${details})`}`);
    };
    return { debug() {}, info() {}, warn: note, error: note };
  }

  /** The same for the same events, on every runtime. */
  get hash(): string {
    return createHash("sha256").update(this.#lines.join("\n")).digest("hex").slice(0, 16);
  }

  get length(): number {
    return this.#lines.length;
  }

  /** The last lines, as text. */
  toString(): string {
    const left = this.#lines.length - MOST_LINES;
    const lines = left > 0 ? [`… ${left} earlier lines`, ...this.#lines.slice(left)] : this.#lines;
    return lines.join("\n");
  }
}

/** A rule that a step of the simulation has broken. */
export class Violation extends Error {
  override readonly name = "Violation";
  /** The name of the rule. */
  readonly rule: string;

  constructor(rule: string, text: string) {
    super(`${rule}: ${text}`);
    this.rule = rule;
  }
}
