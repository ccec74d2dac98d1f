import { show } from "../_checks.ts";

/** The number of tokens that a model has read and written. */
export interface TokenUsage {
  /** Tokens of the prompts. */
  readonly inputTokens: number;
  /** Tokens of the answers. */
  readonly outputTokens: number;
}

/** Limits the tokens of one attempt at a request. A limit that is left out does not apply. */
export interface Budget {
  /** The limit for prompts, over all model calls. */
  readonly maxInputTokens?: number;
  /** The limit for answers, over all model calls. */
  readonly maxOutputTokens?: number;
  /** The limit for prompts and answers together. */
  readonly maxTotalTokens?: number;
}

/** An attempt has used more tokens than its budget allows. */
export class BudgetExceededError extends Error {
  /** The class name, for logs and for checks without `instanceof`. */
  override readonly name = "BudgetExceededError";
}

const LIMITS = ["maxInputTokens", "maxOutputTokens", "maxTotalTokens"] as const;

/**
 * Counts the tokens of an attempt and throws when they exceed the budget. The adapter reports each model
 * call to it.
 *
 * @example
 * ```ts
 * import { BudgetTracker } from "@lastcall/lastcall/agents";
 *
 * const tracker = new BudgetTracker({ maxTotalTokens: 100 });
 * tracker.spend({ inputTokens: 60, outputTokens: 30 });
 * console.assert(tracker.left.outputTokens === 10);
 * ```
 */
export class BudgetTracker {
  /** The limits. */
  readonly budget: Budget;
  #inputTokens = 0;
  #outputTokens = 0;

  /**
   * Creates a tracker that has counted no tokens yet.
   *
   * @throws {RangeError} when a limit is not a whole number from 1.
   */
  constructor(budget: Budget = {}) {
    this.budget = checkBudget(budget);
  }

  /** The tokens used so far, over all model calls. */
  get used(): TokenUsage {
    return { inputTokens: this.#inputTokens, outputTokens: this.#outputTokens };
  }

  /** The tokens that may still be used; `Infinity` where no limit applies. */
  get left(): TokenUsage {
    const { maxInputTokens = Infinity, maxOutputTokens = Infinity } = this.budget;
    const { maxTotalTokens = Infinity } = this.budget;
    const total = maxTotalTokens - this.#inputTokens - this.#outputTokens;
    return {
      inputTokens: Math.max(0, Math.min(maxInputTokens - this.#inputTokens, total)),
      outputTokens: Math.max(0, Math.min(maxOutputTokens - this.#outputTokens, total)),
    };
  }

  /**
   * Checks before a model call that some budget is left.
   *
   * @throws {BudgetExceededError} when no input or no output tokens are left.
   */
  check(): void {
    const { inputTokens, outputTokens } = this.left;
    if (inputTokens === 0 || outputTokens === 0) throw this.#exceeded();
  }

  /**
   * Adds the tokens of a model call.
   *
   * @throws {BudgetExceededError} when the sum exceeds the budget.
   */
  spend({ inputTokens, outputTokens }: TokenUsage): void {
    this.#inputTokens += inputTokens;
    this.#outputTokens += outputTokens;
    const { maxInputTokens = Infinity, maxOutputTokens = Infinity } = this.budget;
    const { maxTotalTokens = Infinity } = this.budget;
    const within = this.#inputTokens <= maxInputTokens && this.#outputTokens <= maxOutputTokens &&
      this.#inputTokens + this.#outputTokens <= maxTotalTokens;
    if (!within) throw this.#exceeded();
  }

  #exceeded(): BudgetExceededError {
    const limits = LIMITS.flatMap((name) =>
      this.budget[name] === undefined ? [] : [
        `${name} ${this.budget[name]}`,
      ]
    );
    return new BudgetExceededError(
      `Token budget exceeded: ${this.#inputTokens} input and ${this.#outputTokens} output tokens ` +
        `used of ${limits.join(", ")}. Raise the limit or shorten the prompt.`,
    );
  }
}

/**
 * Returns the budget unchanged.
 *
 * @throws {RangeError} when a limit is not a whole number from 1.
 */
export function checkBudget(budget: Budget): Budget {
  for (const name of LIMITS) {
    const value = budget[name];
    if (value === undefined || (Number.isInteger(value) && value >= 1)) continue;
    throw new RangeError(`Invalid ${name}: expected a whole number from 1, got ${show(value)}`);
  }
  return budget;
}
