import { systemRandom } from "../random.ts";
import type { TokenUsage } from "./budget.ts";

/** The author of a turn. */
export type Role = "system" | "user" | "assistant" | "tool";

/** One message of a conversation. */
export interface Turn {
  /** The author. */
  readonly role: Role;
  /** The text. */
  readonly content: string;
}

/** A session as plain data. */
export interface SessionRecord {
  /** The id of the session. */
  readonly id: string;
  /** All turns, oldest first. */
  readonly turns: readonly Turn[];
  /** The tokens of all model calls. */
  readonly usage: TokenUsage;
}

/** Records the conversation with a model while a loop handles a request. */
export class Session {
  /** The same for all requests of one conversation. */
  readonly id: string;
  readonly #turns: Turn[] = [];
  #usage: TokenUsage = { inputTokens: 0, outputTokens: 0 };

  /** Creates an empty session. Without an id it gets a random UUID. */
  constructor(id: string = systemRandom.id()) {
    this.id = id;
  }

  /** All turns so far, oldest first. */
  get turns(): readonly Turn[] {
    return this.#turns;
  }

  /** The tokens of all model calls so far. */
  get usage(): TokenUsage {
    return this.#usage;
  }

  /** Appends turns. */
  record(...turns: readonly Turn[]): void {
    this.#turns.push(...turns);
  }

  /** Adds the tokens of a model call. */
  spent({ inputTokens, outputTokens }: TokenUsage): void {
    this.#usage = {
      inputTokens: this.#usage.inputTokens + inputTokens,
      outputTokens: this.#usage.outputTokens + outputTokens,
    };
  }

  /** Returns a copy as plain data, which later turns do not change. */
  toJSON(): SessionRecord {
    return { id: this.id, turns: [...this.#turns], usage: this.#usage };
  }
}
