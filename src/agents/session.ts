import type { TokenUsage } from "./budget.ts";

/** Who says something. */
export type Role = "system" | "user" | "assistant" | "tool";

/** Something that was said. */
export interface Turn {
  readonly role: Role;
  readonly content: string;
}

/** A session as it is stored. */
export interface SessionRecord {
  readonly id: string;
  readonly turns: readonly Turn[];
  readonly usage: TokenUsage;
}

/** What was said while a request was worked on, for those who look at it afterwards. */
export class Session {
  readonly id: string;
  readonly #turns: Turn[] = [];
  #usage: TokenUsage = { inputTokens: 0, outputTokens: 0 };

  constructor(id: string = crypto.randomUUID()) {
    this.id = id;
  }

  get turns(): readonly Turn[] {
    return this.#turns;
  }

  /** What it has cost so far. */
  get usage(): TokenUsage {
    return this.#usage;
  }

  record(...turns: readonly Turn[]): void {
    this.#turns.push(...turns);
  }

  /** Adds what a call has cost. */
  spent({ inputTokens, outputTokens }: TokenUsage): void {
    this.#usage = {
      inputTokens: this.#usage.inputTokens + inputTokens,
      outputTokens: this.#usage.outputTokens + outputTokens,
    };
  }

  toJSON(): SessionRecord {
    return { id: this.id, turns: [...this.#turns], usage: this.#usage };
  }
}
