import { show } from "../_checks.ts";

/** Tokens that a model has read and written. */
export interface TokenUsage {
  /** Those of the prompt. */
  readonly inputTokens: number;
  /** Those of the answer. */
  readonly outputTokens: number;
}

/** How many tokens a request may cost. What is left out is not limited. */
export interface Budget {
  /** For prompts, over all calls of the request. */
  readonly maxInputTokens?: number;
  /** For answers, over all calls of the request. */
  readonly maxOutputTokens?: number;
  /** For both together. */
  readonly maxTotalTokens?: number;
}

/** A request has cost more tokens than it may. */
export class BudgetExceededError extends Error {
  /** What a log or a `catch` tells it by. */
  override readonly name = "BudgetExceededError";
}

const LIMITS = ["maxInputTokens", "maxOutputTokens", "maxTotalTokens"] as const;

/**
 * Counts what a request costs. The adapter tells it, and is stopped by it.
 *
 * @example
 * ```ts
 * import { BudgetTracker } from "@lastcall/lastcall";
 *
 * const tracker = new BudgetTracker({ maxTotalTokens: 100 });
 * tracker.spend({ inputTokens: 60, outputTokens: 30 });
 * console.assert(tracker.left.outputTokens === 10);
 * ```
 */
export class BudgetTracker {
  /** What may be spent in all. */
  readonly budget: Budget;
  #inputTokens = 0;
  #outputTokens = 0;

  /** Refuses a budget that is not made of whole positive numbers. */
  constructor(budget: Budget = {}) {
    this.budget = checkBudget(budget);
  }

  /** What was spent so far, over all calls. */
  get used(): TokenUsage {
    return { inputTokens: this.#inputTokens, outputTokens: this.#outputTokens };
  }

  /** How many more of each kind there may be; `Infinity` where nothing limits them. */
  get left(): TokenUsage {
    const { maxInputTokens = Infinity, maxOutputTokens = Infinity } = this.budget;
    const { maxTotalTokens = Infinity } = this.budget;
    const total = maxTotalTokens - this.#inputTokens - this.#outputTokens;
    return {
      inputTokens: Math.max(0, Math.min(maxInputTokens - this.#inputTokens, total)),
      outputTokens: Math.max(0, Math.min(maxOutputTokens - this.#outputTokens, total)),
    };
  }

  /** Asked before a call: throws a {@linkcode BudgetExceededError} when it could say nothing any more. */
  check(): void {
    const { inputTokens, outputTokens } = this.left;
    if (inputTokens === 0 || outputTokens === 0) throw this.#exceeded();
  }

  /** Told after a call: throws a {@linkcode BudgetExceededError} when that was too much. */
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
      `The budget is used up: ${this.#inputTokens} tokens read and ${this.#outputTokens} written, ` +
        `with ${limits.join(", ")}`,
    );
  }
}

/** Refuses limits that are no whole numbers from 1 on. */
export function checkBudget(budget: Budget): Budget {
  for (const name of LIMITS) {
    const value = budget[name];
    if (value === undefined || (Number.isInteger(value) && value >= 1)) continue;
    throw new RangeError(`Invalid ${name}: expected a whole number from 1, got ${show(value)}`);
  }
  return budget;
}
