import type { TokenUsage } from "./budget.ts";

/** Who says something. */
export type Role = "system" | "user" | "assistant" | "tool";

/** Something that was said. */
export interface Turn {
  /** Who said it. */
  readonly role: Role;
  /** What was said, as text. */
  readonly content: string;
}

/** A session as it is stored. */
export interface SessionRecord {
  /** That of the session it was made from. */
  readonly id: string;
  /** Oldest first. */
  readonly turns: readonly Turn[];
  /** What it has cost in all. */
  readonly usage: TokenUsage;
}

/** What was said while a request was worked on, for those who look at it afterwards. */
export class Session {
  /** The same for all requests of one conversation. */
  readonly id: string;
  readonly #turns: Turn[] = [];
  #usage: TokenUsage = { inputTokens: 0, outputTokens: 0 };

  /** Empty. Without an id it gets a random one. */
  constructor(id: string = crypto.randomUUID()) {
    this.id = id;
  }

  /** What was said so far, oldest first. */
  get turns(): readonly Turn[] {
    return this.#turns;
  }

  /** What it has cost so far. */
  get usage(): TokenUsage {
    return this.#usage;
  }

  /** Adds what was said, in its order. */
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

  /** A copy that later turns do not change, for `JSON.stringify`. */
  toJSON(): SessionRecord {
    return { id: this.id, turns: [...this.#turns], usage: this.#usage };
  }
}
