import { checkCount, show } from "../_checks.ts";
import { errorText } from "../errors.ts";
import { traceIn } from "../telemetry/trace_context.ts";
import { type Codec, encodeEnvelope } from "./codec.ts";
import type { Entry, StoredMessage } from "./engine.ts";
import { type Envelope, type MessageHeaders, plainEnvelope } from "./envelope.ts";
import type { DeadLetter, DeadLetterReason } from "./mailbox.ts";

/** An error class, for `instanceof`. */
// deno-lint-ignore no-explicit-any -- constructors of any parameters
export type ErrorClass = abstract new (...parameters: any[]) => Error;

/** The default of {@linkcode DeadLetterOptions.maxDeliveries}. */
const DEFAULT_MAX_DELIVERIES = 10;

/** A message becomes a suspect when so many of its deliveries have ended unsettled. */
const SUSPECT_AFTER = 2;

/**
 * A message is dead-lettered unhandled after so many such deliveries at the least: two of them as a suspect. The
 * first of these may have ended before the loop had released the messages beside it.
 */
const SPENT_AFTER = SUSPECT_AFTER + 2;

/** How often a message was delivered, and how these deliveries ended. Every message has these members. */
export interface DeliveryHistory {
  /** The number of this delivery, from 1. */
  readonly deliveryCount: number;
  /** How many earlier deliveries ended unsettled; undefined where the engine does not know. */
  readonly leaseExpiries?: number | undefined;
  /** The message's own limit, which replaces that of the policy. */
  readonly maxDeliveries?: number | undefined;
}

/** Options of {@linkcode DeadLetterPolicy}. */
export interface DeadLetterOptions {
  /** A message that failed this often is dead-lettered. @default {10} */
  readonly maxDeliveries?: number;
  /** Errors that dead-letter a message at once. */
  readonly include?: readonly ErrorClass[];
  /** Errors that never dead-letter a message; it is always tried again. Wins over `include`. */
  readonly exclude?: readonly ErrorClass[];
}

/**
 * Decides when a message is dead-lettered. The `maxDeliveries` of a message replaces that of the policy.
 *
 * @example
 * ```ts
 * import { DeadLetterPolicy } from "@lastcall/lastcall";
 *
 * const policy = new DeadLetterPolicy({ maxDeliveries: 3, include: [TypeError] });
 * const [second, third] = [{ deliveryCount: 2 }, { deliveryCount: 3 }];
 * console.assert(policy.afterFailure(new Error("busy"), second) === undefined);
 * console.assert(policy.afterFailure(new Error("busy"), third)?.reason === "max_deliveries");
 * console.assert(policy.afterFailure(new TypeError("bad"), second)?.reason === "handler_error");
 * ```
 */
export class DeadLetterPolicy {
  /** A message that failed this often is dead-lettered. */
  readonly maxDeliveries: number;
  readonly #include: readonly ErrorClass[];
  readonly #exclude: readonly ErrorClass[];

  /**
   * Checks the options.
   *
   * @throws {TypeError | RangeError} when an option is invalid.
   */
  constructor(options: DeadLetterOptions = {}) {
    const { maxDeliveries = DEFAULT_MAX_DELIVERIES } = options;
    this.maxDeliveries = checkCount("maxDeliveries", maxDeliveries, 1);
    this.#include = checkClasses("include", options.include ?? []);
    this.#exclude = checkClasses("exclude", options.exclude ?? []);
  }

  /**
   * Returns true for a message whose deliveries ended unsettled twice: its process died, because of this
   * message or of another one in flight, or its lease expired. A suspect is handled alone, so that the next
   * crash tells which message causes it. Where the engine does not count such deliveries, a message is a
   * suspect when it was delivered more often than it may fail.
   */
  suspects(message: DeliveryHistory): boolean {
    const { leaseExpiries } = message;
    if (leaseExpiries !== undefined) return leaseExpiries >= SUSPECT_AFTER;
    return message.deliveryCount > (message.maxDeliveries ?? this.maxDeliveries);
  }

  /**
   * Called before the handler. Returns a reason for a message that was delivered `maxDeliveries` times, if at
   * least four of these deliveries ended unsettled, two of them while it was a suspect. With
   * `maxDeliveries: 1` no handler is called twice.
   */
  beforeWork(message: DeliveryHistory): DeadLetterReason | undefined {
    const { deliveryCount, leaseExpiries, maxDeliveries = this.maxDeliveries } = message;
    const isSpent = leaseExpiries === undefined
      ? deliveryCount > maxDeliveries + 1
      : deliveryCount > maxDeliveries && leaseExpiries >= SPENT_AFTER;
    if (!isSpent && (maxDeliveries > 1 || deliveryCount === 1)) return undefined;
    const unsettled = leaseExpiries ?? deliveryCount - 1;
    return {
      reason: "max_deliveries",
      error:
        `${unsettled} of ${deliveryCount - 1} deliveries ended when the process ended or the ` +
        `lease expired, before the handler did (maxDeliveries: ${maxDeliveries})`,
    };
  }

  /** Returns true for errors of `exclude`: the attempt does not count. */
  excuses(error: unknown): boolean {
    return isOneOf(error, this.#exclude);
  }

  /**
   * Called after the handler failed. Returns the reason to dead-letter the message, if any. Deliveries that
   * ended unsettled are not failures.
   */
  afterFailure(error: unknown, message: DeliveryHistory): DeadLetterReason | undefined {
    if (this.excuses(error)) return undefined;
    const { deliveryCount, leaseExpiries = 0, maxDeliveries = this.maxDeliveries } = message;
    const isIncluded = isOneOf(error, this.#include);
    if (!isIncluded && deliveryCount - leaseExpiries < maxDeliveries) return undefined;
    return { reason: isIncluded ? "handler_error" : "max_deliveries", error: errorText(error) };
  }
}

/** Builds the dead letter of a delivery. */
export function deadLetterOf<T>(
  { id, deliveryCount, enqueuedAt }: StoredMessage<unknown>,
  content: { readonly body: T } | { readonly raw: string },
  envelope: Envelope,
  checkpoint: unknown,
  reason: DeadLetterReason,
  deadAt: number,
): DeadLetter<T> {
  return {
    id,
    ...content,
    ...plainEnvelope(envelope),
    ...reason,
    deliveryCount,
    enqueuedAt,
    deadAt,
    ...(checkpoint === undefined ? {} : { checkpoint }),
  };
}

/**
 * Encodes a dead letter for the engine. It has the envelope of its message, so that it can be replied to, but
 * does not expire: a receive of the dead letters would move or drop it.
 */
export async function letterEntry<B>(
  codec: Codec<B>,
  letter: DeadLetter<unknown>,
  envelope: Envelope,
): Promise<Entry<B>> {
  const body = await codec.encode(letter);
  const { expiresInMs: _, onExpired: _drop, ...lasting } = envelope;
  const meta = encodeEnvelope(codec, lasting, body);
  return { id: letter.id, body, meta, delayMs: 0, dedup: false };
}

/** Wraps the codec of a mailbox for its dead letters, and reads those of version 0.1. */
export function letterCodec<B>(codec: Codec<B>): Codec<B> {
  return {
    ...codec,
    decode(stored) {
      const decoded = codec.decode(stored);
      return decoded instanceof Promise ? decoded.then(readLetter) : readLetter(decoded);
    },
  };
}

/** Adds the headers that a letter of version 0.1 has under another name. */
function readLetter(letter: unknown): unknown {
  if (typeof letter !== "object" || letter === null || "headers" in letter) return letter;
  const { trace, ...rest } = letter as { readonly trace?: MessageHeaders };
  return { ...rest, headers: { ...traceIn(Object(trace)) } };
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
