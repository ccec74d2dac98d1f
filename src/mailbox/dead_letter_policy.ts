import { checkCount, show } from "../_checks.ts";
import { errorText } from "../errors.ts";
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
    this.maxDeliveries = checkCount("maxDeliveries", options.maxDeliveries ?? 5, 1);
    this.#include = checkClasses("include", options.include ?? []);
    this.#exclude = checkClasses("exclude", options.exclude ?? []);
  }

  /**
   * Returns true for a message that was delivered more often than it may fail. It never got as far as to
   * fail: its process ended first, because of this message or of another one in flight beside it. A
   * suspect is handled once more, alone, before it is dead-lettered.
   */
  suspects(deliveryCount: number): boolean {
    return deliveryCount > this.maxDeliveries;
  }

  /**
   * Asked before the handler is called. A suspect that comes back from its lone delivery has failed for
   * good. With `maxDeliveries: 1` there is no lone delivery: no handler is called twice.
   */
  beforeWork(deliveryCount: number): DeadLetterReason | undefined {
    const allowed = this.maxDeliveries === 1 ? 1 : this.maxDeliveries + 1;
    if (deliveryCount <= allowed) return undefined;
    return {
      reason: "max_deliveries",
      error:
        `delivered ${deliveryCount} times, and its handler never ended; its process ended or ` +
        `its lease expired each time (maxDeliveries: ${this.maxDeliveries})`,
    };
  }

  /** Whether the message is not to blame, so that the attempt does not count. */
  excuses(error: unknown): boolean {
    return isOneOf(error, this.#exclude);
  }

  /** Asked after the work has failed. */
  afterFailure(error: unknown, deliveryCount: number): DeadLetterReason | undefined {
    if (this.excuses(error)) return undefined;
    const hopeless = isOneOf(error, this.#include);
    if (!hopeless && deliveryCount < this.maxDeliveries) return undefined;
    return { reason: hopeless ? "handler_error" : "max_deliveries", error: errorText(error) };
  }
}

/** A class or a value that fails the comparison is treated as no match. */
function isOneOf(error: unknown, types: readonly ErrorClass[]): boolean {
  try {
    return types.some((type) => error instanceof type);
  } catch {
    return false;
  }
}

/** Refuses what `instanceof` would refuse, before a message has failed. */
function checkClasses(name: string, classes: readonly ErrorClass[]): readonly ErrorClass[] {
  for (const type of classes) {
    if (typeof type === "function") continue;
    throw new TypeError(`Invalid ${name}: expected classes of errors, got ${show(type)}`);
  }
  return classes;
}
