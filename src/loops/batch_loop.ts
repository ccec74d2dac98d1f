import { checkCount, checkDuration, show } from "../_checks.ts";
import { onAbort } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import type { Log } from "../log.ts";
import { MAX_BATCH, type Message } from "../mailbox/mailbox.ts";
import type { HandlerContext } from "./handler.ts";
import { MailboxLoop, type MailboxLoopOptions } from "./mailbox_loop.ts";

/** The context of a call of a batch handler. */
export interface BatchContext<T, R = unknown> {
  /** Aborts when a stop begins: finish, or end at the next safe point. */
  readonly stopping: AbortSignal;
  /**
   * Aborts when the work on all messages of the batch must end: the deadline is near, the stop was forced,
   * or every message was cancelled or lost its lease.
   */
  readonly signal: AbortSignal;
  /** Returns the signal of one message. It also aborts when only that message was cancelled or lost its lease. */
  readonly signalOf: (message: Message<T, R>) => AbortSignal;
  /** Records a heartbeat for the watchdog, and for the leases where their extension depends on it. */
  readonly beat: () => void;
  /**
   * Marks one message of the batch as failed: it is retried or dead-lettered as if its own handler had thrown
   * `error`. The other messages are not affected.
   */
  readonly fail: (message: Message<T, R>, error: unknown) => void;
  /** The loop's log. */
  readonly log: Log;
}

/**
 * Handles a batch of messages. The loop acknowledges all of them in one call when this returns, except those
 * that were passed to `fail`. When this throws, all of them are retried.
 */
export type BatchHandler<T, R = unknown> = (
  messages: readonly Message<T, R>[],
  context: BatchContext<T, R>,
) => Promise<unknown> | unknown;

/** Options of {@linkcode BatchLoop}. */
export interface BatchLoopOptions<T, R = unknown>
  extends Omit<MailboxLoopOptions<T, R>, "handler" | "concurrency" | "prefetch"> {
  /** Handles a batch of 1 to `maxMessages` messages. */
  readonly handler: BatchHandler<T, R>;
  /** The most messages of a batch, up to 1 000. @default {100} */
  readonly maxMessages?: number;
  /** How long a batch collects messages, from its first one on, in milliseconds. @default {1_000} */
  readonly waitMs?: number;
  /** How many batches are handled at a time. At most 1 000 messages in all. @default {1} */
  readonly concurrency?: number;
}

/**
 * Calls its handler once for many messages: when `maxMessages` are collected, or `waitMs` after the first.
 * Everything else is as in {@linkcode MailboxLoop}: each message has its own lease, attempts and dead letter.
 * A stop finishes the batches whose handler runs, and releases the messages that are being collected.
 *
 * @example
 * ```ts
 * import { BatchLoop, InMemoryMailbox, LoopGroup } from "@lastcall/lastcall";
 *
 * const events = new InMemoryMailbox<number>("events");
 * await events.sendMany([1, 2, 3, 4, 5]);
 * const loop = new BatchLoop({
 *   mailbox: events,
 *   maxMessages: 5,
 *   handler: (messages) => console.log("insert", messages.map(({ body }) => body)),
 * });
 * const report = await new LoopGroup([loop]).run({ maxMessages: 5 });
 * console.assert(report.counts.acknowledged === 5);
 * ```
 */
export class BatchLoop<T, R = unknown> extends MailboxLoop<T, R> {
  /**
   * Checks the options. Nothing starts before `run`.
   *
   * @throws {TypeError | RangeError} when an option is invalid.
   */
  constructor(options: BatchLoopOptions<T, R>) {
    const { handler, maxMessages = 100, waitMs = 1_000, concurrency = 1, ...others } = options;
    checkCount("maxMessages", maxMessages, 1, MAX_BATCH);
    checkCount("concurrency", concurrency, 1, Math.floor(MAX_BATCH / maxMessages));
    checkDuration("waitMs", waitMs);
    if (typeof handler !== "function") {
      throw new TypeError(
        `Invalid handler of a batch loop: expected a function, got ${show(handler)}`,
      );
    }
    const batches = new Batches<T, R>({
      handler,
      maxMessages,
      waitMs,
      concurrency,
      clock: options.clock ?? systemClock,
    });
    super({
      ...others,
      concurrency: maxMessages * concurrency,
      prefetch: 0, // a batch collects as many messages as its handler takes
      handler: (message, context) => batches.add(message, context),
    });
  }
}

/** A message of a batch, and the promise of its own handler call. */
interface Member<T, R> {
  readonly message: Message<T, R>;
  readonly context: HandlerContext;
  resolve(): void;
  reject(error: unknown): void;
}

type BatchesOptions<T, R> =
  & Required<Pick<BatchLoopOptions<T, R>, "handler" | "maxMessages" | "waitMs" | "concurrency">>
  & { readonly clock: Clock };

/**
 * Collects messages and calls the batch handler.
 *
 * ```text
 * collecting ── full, or waitMs passed, and a call is free ──▶ handling ──▶ each member settled
 *      └── a stop ──▶ released
 * ```
 *
 * The loop gives each message to `add` as to a handler of its own, and settles it by the result of `add`.
 */
class Batches<T, R> {
  readonly #options: BatchesOptions<T, R>;
  #collecting: Member<T, R>[] = [];
  /** True when `waitMs` has passed since the first of the collected messages. */
  #isDue = false;
  #handling = 0;
  #cancelTimer: Cancel | undefined;
  #unlinkStop: (() => void) | undefined;

  constructor(options: BatchesOptions<T, R>) {
    this.#options = options;
  }

  /** Adds a message to the next batch. Resolves or rejects as the batch handler decides. */
  add(message: Message<T, R>, context: HandlerContext): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#collecting.length === 0) this.#begin(context.stopping);
      this.#collecting.push({ message, context, resolve, reject });
      this.#handleNext();
    });
  }

  #begin(stopping: AbortSignal): void {
    const { clock, waitMs } = this.#options;
    this.#isDue = false;
    this.#cancelTimer = clock.schedule(waitMs, () => {
      this.#isDue = true;
      this.#handleNext();
    });
    // In a later turn: the first message must be there when the stop has begun already.
    queueMicrotask(() => this.#unlinkStop = onAbort(stopping, () => this.#release()));
  }

  #end(): Member<T, R>[] {
    this.#cancelTimer?.();
    this.#unlinkStop?.();
    this.#unlinkStop = undefined;
    return this.#collecting.splice(0, this.#options.maxMessages);
  }

  #handleNext(): void {
    const { concurrency, maxMessages } = this.#options;
    const isReady = this.#isDue || this.#collecting.length >= maxMessages;
    if (!isReady || this.#collecting.length === 0 || this.#handling >= concurrency) return;
    const members = this.#end();
    const [next] = this.#collecting;
    if (next !== undefined) this.#begin(next.context.stopping);
    this.#handle(members);
  }

  async #handle(members: readonly Member<T, R>[]): Promise<void> {
    this.#handling++;
    const failed = new Map<Message<T, R>, unknown>();
    const context = new Context(members, failed);
    try {
      await this.#options.handler(members.map(({ message }) => message), context);
      for (const { message, resolve, reject } of members) {
        if (failed.has(message)) reject(failed.get(message));
        else resolve();
      }
    } catch (error) {
      for (const { message, reject } of members) {
        reject(failed.has(message) ? failed.get(message) : error);
      }
    } finally {
      context.end();
      this.#handling--;
      this.#handleNext();
    }
  }

  /** Releases the collected messages: their handler did not start. */
  #release(): void {
    while (this.#collecting.length > 0) {
      for (const { message, resolve, reject } of this.#end()) {
        message.release().then(resolve, reject);
      }
    }
  }
}

class Context<T, R> implements BatchContext<T, R> {
  readonly #members: readonly Member<T, R>[];
  readonly #failed: Map<Message<T, R>, unknown>;
  #signal: AbortController | undefined;
  #unlinks: (() => void)[] = [];

  constructor(members: readonly Member<T, R>[], failed: Map<Message<T, R>, unknown>) {
    this.#members = members;
    this.#failed = failed;
  }

  get stopping(): AbortSignal {
    return this.#members[0]!.context.stopping;
  }

  get log(): Log {
    return this.#members[0]!.context.log;
  }

  get signal(): AbortSignal {
    return (this.#signal ??= this.#link()).signal;
  }

  get signalOf(): (message: Message<T, R>) => AbortSignal {
    return (message) => this.#member(message).context.signal;
  }

  get beat(): () => void {
    return () => {
      for (const { context } of this.#members) context.beat();
    };
  }

  get fail(): (message: Message<T, R>, error: unknown) => void {
    return (message, error) => void this.#failed.set(this.#member(message).message, error);
  }

  end(): void {
    for (const unlink of this.#unlinks) unlink();
  }

  /** Aborts when the signals of all members have aborted. */
  #link(): AbortController {
    const all = new AbortController();
    const signals = this.#members.map(({ context }) => context.signal);
    this.#unlinks = signals.map((signal) =>
      onAbort(signal, () => {
        if (signals.every(({ aborted }) => aborted)) all.abort(signal.reason);
      })
    );
    return all;
  }

  #member(message: Message<T, R>): Member<T, R> {
    const member = this.#members.find((it) => it.message === message);
    if (member !== undefined) return member;
    throw new TypeError(`Message ${message?.id} is not in this batch: pass one of its messages`);
  }
}
