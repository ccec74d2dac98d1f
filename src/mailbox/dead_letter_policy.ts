import { checkCount } from "../_checks.ts";
import type { DeadLetterReason } from "./mailbox.ts";

/** A class of errors, as `instanceof` takes it. */
// deno-lint-ignore no-explicit-any -- constructors of any parameters
export type ErrorClass = abstract new (...parameters: any[]) => Error;

/** Options of {@linkcode DeadLetterPolicy}. */
export interface DeadLetterOptions {
  /** A message that failed this often is buried. @default {5} */
  readonly maxDeliveries?: number;
  /** Errors after which another attempt makes no sense: buried at the first. */
  readonly include?: readonly ErrorClass[];
  /** Errors that are nobody's fault: never buried, always tried again. Wins over `include`. */
  readonly exclude?: readonly ErrorClass[];
}

/**
 * Decides when a message has failed for good.
 *
 * @example
 * ```ts
 * import { DeadLetterPolicy } from "@lastcall/lastcall";
 *
 * const policy = new DeadLetterPolicy({ maxDeliveries: 3, include: [TypeError] });
 * console.assert(policy.afterFailure(new Error("busy"), 2) === undefined);
 * console.assert(policy.afterFailure(new Error("busy"), 3)?.reason === "max_deliveries");
 * console.assert(policy.afterFailure(new TypeError("bad"), 1)?.reason === "handler_error");
 * ```
 */
export class DeadLetterPolicy {
  /** A message that failed so often is buried. */
  readonly maxDeliveries: number;
  readonly #include: readonly ErrorClass[];
  readonly #exclude: readonly ErrorClass[];

  /** Checks the options. */
  constructor(options: DeadLetterOptions = {}) {
    this.maxDeliveries = checkCount("maxDeliveries", options.maxDeliveries ?? 5);
    if (this.maxDeliveries === 0) {
      throw new RangeError("Invalid maxDeliveries: expected at least 1, got 0");
    }
    this.#include = options.include ?? [];
    this.#exclude = options.exclude ?? [];
  }

  /**
   * Asked before the work: a message that was delivered more often than allowed never got as far as to
   * fail. It ended its process instead.
   */
  beforeWork(deliveryCount: number): DeadLetterReason | undefined {
    if (deliveryCount <= this.maxDeliveries) return undefined;
    return {
      reason: "max_deliveries",
      error:
        `delivered ${deliveryCount} times without an end; at most ${this.maxDeliveries} are allowed`,
    };
  }

  /** Whether the message is not to blame, so that the attempt does not count. */
  excuses(error: unknown): boolean {
    return this.#exclude.some((type) => error instanceof type);
  }

  /** Asked after the work has failed. */
  afterFailure(error: unknown, deliveryCount: number): DeadLetterReason | undefined {
    if (this.excuses(error)) return undefined;
    const hopeless = this.#include.some((type) => error instanceof type);
    if (!hopeless && deliveryCount < this.maxDeliveries) return undefined;
    return { reason: hopeless ? "handler_error" : "max_deliveries", error: String(error) };
  }
}
