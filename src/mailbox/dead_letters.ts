import { checkCount, show } from "../_checks.ts";
import { errorText } from "../errors.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import type { Delivery } from "./engine.ts";
import type { DeadLetter, DeadLetterReason } from "./mailbox.ts";

/** An error class, for `instanceof`. */
// deno-lint-ignore no-explicit-any -- constructors of any parameters
export type ErrorClass = abstract new (...parameters: any[]) => Error;

/** Options of {@linkcode DeadLetterPolicy}. */
export interface DeadLetterOptions {
  /** A message that failed this often is dead-lettered. @default {5} */
  readonly maxDeliveries?: number;
  /** Errors that dead-letter a message at once. */
  readonly include?: readonly ErrorClass[];
  /** Errors that never dead-letter a message; it is always tried again. Wins over `include`. */
  readonly exclude?: readonly ErrorClass[];
}

/**
 * Decides when a message is dead-lettered.
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
  /** A message that failed this often is dead-lettered. */
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
   * Returns true for a message that was delivered more often than it may fail. Its process ended before its
   * handler did, because of this message or of another one in flight. A suspect is handled once more,
   * alone, before it is dead-lettered.
   */
  suspects(deliveryCount: number): boolean {
    return deliveryCount > this.maxDeliveries;
  }

  /**
   * Called before the handler. Returns a reason for a suspect that was handled alone and came back. With
   * `maxDeliveries: 1` no handler is called twice.
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

  /** Returns true for errors of `exclude`: the attempt does not count. */
  excuses(error: unknown): boolean {
    return isOneOf(error, this.#exclude);
  }

  /** Called after the handler failed. Returns the reason to dead-letter the message, if any. */
  afterFailure(error: unknown, deliveryCount: number): DeadLetterReason | undefined {
    if (this.excuses(error)) return undefined;
    const isIncluded = isOneOf(error, this.#include);
    if (!isIncluded && deliveryCount < this.maxDeliveries) return undefined;
    return { reason: isIncluded ? "handler_error" : "max_deliveries", error: errorText(error) };
  }
}

/** Builds the dead letter of a delivery. */
export function deadLetterOf<T>(
  delivery: Delivery<unknown>,
  content: { readonly body: T } | { readonly raw: string },
  checkpoint: unknown,
  reason: DeadLetterReason,
  deadAt: number,
  trace?: TraceContext,
): DeadLetter<T> {
  const { id, deliveryCount, enqueuedAt, replyTo } = delivery;
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  return {
    id,
    ...content,
    ...reason,
    deliveryCount,
    enqueuedAt,
    deadAt,
    ...(address === undefined ? {} : { replyTo: address }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(trace === undefined ? {} : { trace }),
  };
}

/** A class or a value that fails the comparison is treated as no match. */
function isOneOf(error: unknown, types: readonly ErrorClass[]): boolean {
  try {
    return types.some((type) => error instanceof type);
  } catch {
    return false;
  }
}

/** Throws now for values that `instanceof` would refuse when a message fails. */
function checkClasses(name: string, classes: readonly ErrorClass[]): readonly ErrorClass[] {
  for (const type of classes) {
    if (typeof type === "function") continue;
    throw new TypeError(`Invalid ${name}: expected classes of errors, got ${show(type)}`);
  }
  return classes;
}
