import { backoffMs, type BackoffOptions, checkBackoff } from "../_backoff.ts";
import {
  type CancelledError,
  isRetryLaterError,
  leaseLost,
  type LeaseLostError,
} from "../errors.ts";
import type { Lease } from "../lease/lease_extender.ts";
import type { Heartbeat } from "../lifecycle/watchdog.ts";
import type { Log } from "../log.ts";
import type { DeadLetterPolicy } from "../mailbox/dead_letters.ts";
import type { DeadLetterReason, Message, NackOptions } from "../mailbox/mailbox.ts";
import type { Random } from "../random.ts";
import { describeIssues, type StandardSchema, withBody } from "./schema.ts";
import { isDeadLetterError } from "./_dead_letter_error.ts";
import { Steps } from "./_steps.ts";

/** The context of a handler call. */
export interface HandlerContext {
  /** Aborts when a stop begins: finish, or end at the next safe point. */
  readonly stopping: AbortSignal;
  /**
   * Aborts when the work must end: the deadline is near, the stop was forced, `cancel` of the mailbox deleted
   * the message (all with a {@linkcode CancelledError}), or the lease was lost (with a
   * {@linkcode LeaseLostError}).
   */
  readonly signal: AbortSignal;
  /** Records a heartbeat for the watchdog, and for the lease where its extension depends on it. */
  readonly beat: () => void;
  /** Saves a checkpoint. The next delivery of the message has it as `message.checkpoint`. */
  readonly checkpoint: (value: unknown) => Promise<void>;
  /**
   * Runs a part of the work once per message. Its result is saved with the message, and later deliveries
   * return it without calling `run` again. The result must be JSON. Each step has a name of its own, and the
   * handler calls its steps in the same order in every delivery.
   *
   * A step that is interrupted by a crash before its result is saved runs again. After `signal` has aborted
   * no step begins: the call rejects with the reason of the signal.
   *
   * @throws {TypeError} when the name was used before in this delivery, or an earlier delivery called another
   * step in this place, or the result is not JSON.
   */
  readonly step: <S>(name: string, run: () => S | Promise<S>) => Promise<S>;
  /**
   * Stops extending the lease, and waits for an extension in progress. What follows, such as a reply, has
   * the visibility timeout to finish.
   */
  readonly endLease: () => Promise<void>;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The loop's log. */
  readonly log: Log;
}

/** Handles one message. The loop acknowledges it when this returns, and retries it when this throws. */
export type Handler<T, R = unknown> = (
  message: Message<T, R>,
  context: HandlerContext,
) => Promise<unknown> | unknown;

/**
 * Runs around the handler of each message, for what all handlers of a program share: a log context, a metric,
 * a tenant. `next` calls the handler. What this throws is a failure of the message; a message for which
 * `next` is not called is acknowledged.
 */
export type Around<T, R = unknown> = (
  message: Message<T, R>,
  context: HandlerContext,
  next: () => Promise<void>,
) => Promise<unknown> | unknown;

/** Called with a message that is about to be dead-lettered. */
export type OnDeadLetter<T, R = unknown> = (
  message: Message<T, R>,
  reason: DeadLetterReason,
) => Promise<unknown> | unknown;

/** The state that all message contexts of one run share. */
export interface RunScope {
  readonly stopping: AbortSignal;
  readonly heartbeat: Heartbeat;
  readonly log: Log;
}

/**
 * The context of one message. Its parts are created on first use, because most handlers use few of them.
 */
export class MessageContext implements HandlerContext {
  readonly #scope: RunScope;
  readonly #message: Message<unknown, never>;
  readonly #lease: Lease;
  #abort: AbortController | undefined;
  #reason: CancelledError | LeaseLostError | undefined;
  #steps: Steps | undefined;

  constructor(scope: RunScope, message: Message<unknown, never>, lease: Lease) {
    this.#scope = scope;
    this.#message = message;
    this.#lease = lease;
  }

  get stopping(): AbortSignal {
    return this.#scope.stopping;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#reason !== undefined) this.#abort.abort(this.#reason);
    }
    return this.#abort.signal;
  }

  get beat(): () => void {
    return () => {
      this.#scope.heartbeat.beat();
      this.#lease.beat();
    };
  }

  get checkpoint(): (value: unknown) => Promise<void> {
    return (value) => this.#message.saveCheckpoint(value);
  }

  get step(): <S>(name: string, run: () => S | Promise<S>) => Promise<S> {
    return async (name, run) => {
      if (this.#lease.expired()) this.cancel(leaseLost(this.#message.id));
      // The effect of the step could not be saved, and another worker would repeat it.
      if (this.#reason !== undefined) throw this.#reason;
      return await (this.#steps ??= new Steps(this.#message)).run(name, run);
    };
  }

  get endLease(): () => Promise<void> {
    return async () => await this.#lease.stop();
  }

  get attempt(): number {
    return this.#message.deliveryCount;
  }

  get log(): Log {
    return this.#scope.log;
  }

  /** Why the work was cancelled, if it was. */
  get reason(): CancelledError | LeaseLostError | undefined {
    return this.#reason;
  }

  /** Cancels the work. Only the first reason counts. */
  cancel(reason: CancelledError | LeaseLostError): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#abort?.abort(reason);
  }
}

/** Returns steps of work that is in no mailbox. They are checked in the same way, and not saved. */
export function unsavedSteps(id: string): HandlerContext["step"] {
  const steps = new Steps({ id, steps: [], saveStep: () => Promise.resolve() });
  return (name, run) => steps.run(name, run);
}

/** How to settle a message after its handler has ended. */
export type Decision =
  | { readonly kind: "acknowledge" }
  | { readonly kind: "release" }
  | {
    readonly kind: "nack";
    readonly options: NackOptions;
    readonly error?: unknown;
    /** How long the whole queue pauses, in milliseconds; undefined when it does not. */
    readonly pauseMs?: number | undefined;
  }
  | { readonly kind: "deadLetter"; readonly reason: DeadLetterReason; readonly error: unknown };

/** The options of a loop that decide how a message is handled. */
export interface HandlerOptions<T, R> {
  readonly handler: Handler<T, R>;
  readonly around: Around<T, R> | undefined;
  readonly schema: StandardSchema<T> | undefined;
  /** Undefined where messages are retried for ever. */
  readonly policy: DeadLetterPolicy | undefined;
  readonly backoff: Required<BackoffOptions>;
  /** The longest delay of a nack. */
  readonly maxDelayMs: number;
  readonly random: Random;
  readonly log: Log;
}

const ACKNOWLEDGE: Decision = { kind: "acknowledge" };

/**
 * Validates the body, calls the handler, and decides how to settle the message. Never throws. Calls `onDecision`
 * later with the item, because a promise per decision and a function per item would cost too much.
 */
export function handle<T, R, I extends { readonly message: Message<T, R> }>(
  item: I,
  context: MessageContext,
  options: HandlerOptions<T, R>,
  onDecision: (item: I, decision: Decision) => void,
): void {
  const { message } = item;
  const failed = (error: unknown) => {
    void afterFailure(message, context, options, error).then((it) => onDecision(item, it));
  };
  try {
    const { schema, policy } = options;
    const exhausted = policy?.beforeWork(message);
    if (exhausted !== undefined || schema !== undefined) {
      const deciding = exhausted === undefined
        ? handleValid(message, context, options, schema!)
        : Promise.resolve(deadLetter(exhausted));
      deciding.then((it) => onDecision(item, it), failed);
    } else {
      const handling = Promise.resolve(call(message, context, options));
      handling.then(() => onDecision(item, ACKNOWLEDGE), failed);
    }
  } catch (error) {
    failed(error);
  }
}

/** Handles a message whose body the schema accepts. Rejects when the handler fails. */
async function handleValid<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  options: HandlerOptions<T, R>,
  schema: StandardSchema<T>,
): Promise<Decision> {
  const result = await schema["~standard"].validate(message.body);
  if (result.issues !== undefined) {
    return deadLetter({ reason: "schema", error: describeIssues(result.issues) });
  }
  await call(withBody(message, result.value), context, options);
  return ACKNOWLEDGE;
}

function call<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  { around, handler }: HandlerOptions<T, R>,
): unknown {
  if (around === undefined) return handler(message, context);
  return around(message, context, async () => void await handler(message, context));
}

async function afterFailure<T, R>(
  message: Message<T, R>,
  context: MessageContext,
  { policy, log, maxDelayMs, random, ...defaults }: HandlerOptions<T, R>,
  error: unknown,
): Promise<Decision> {
  if (message.settling !== undefined) await message.settling;
  const { id, deliveryCount: attempt } = message;
  if (message.finalized) {
    log.warn("handler failed after it had settled the message", { id, attempt, error });
    return { kind: "acknowledge" };
  }
  // The handler stopped because it was cancelled; this is not a failed attempt.
  if (context.reason !== undefined) return { kind: "release" };
  if (isDeadLetterError(error)) return deadLetter(error.reason, error.cause);
  const { minMs, maxMs } = message.backoff === undefined
    ? defaults.backoff
    : checkBackoff(message.backoff, defaults.backoff);
  const backoff = backoffMs(attempt, minMs, maxMs, random);
  if (isRetryLaterError(error)) {
    const delayMs = Math.min(error.delayMs ?? backoff, maxDelayMs);
    const pauseMs = error.pauseQueue ? delayMs : undefined;
    log.debug("message is retried later", { id, attempt, delayMs, pauseMs, error });
    return { kind: "nack", options: { delayMs, countsAttempt: false }, error, pauseMs };
  }
  const reason = policy?.afterFailure(error, message);
  if (reason !== undefined) return deadLetter(reason, error);
  log.warn("message failed", { id, attempt, delayMs: backoff, error });
  const countsAttempt = policy === undefined || !policy.excuses(error);
  return { kind: "nack", options: { delayMs: backoff, countsAttempt }, error };
}

function deadLetter(
  reason: DeadLetterReason,
  error: unknown = reason.error ?? reason.reason,
): Decision {
  return { kind: "deadLetter", reason, error };
}
