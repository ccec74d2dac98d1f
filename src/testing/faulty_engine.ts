import { type Deferred, deferred } from "../_promises.ts";
import type { Delivery, Engine, Entry, Maybe, Received, StoredMessage } from "../mailbox/engine.ts";
import { MailboxConnectionError } from "../mailbox/errors.ts";
import type { Capabilities } from "../mailbox/mailbox.ts";

/** The calls of an engine that can fail or hang. */
export type EngineOperation = Exclude<
  keyof Engine<unknown>,
  "capabilities" | "label" | "trouble" | "offThread" | "onWake" | "deadLetters" | "close"
>;

/** How a connection is lost. */
export interface LostConnection {
  /** Which operations fail. @default all */
  readonly operations?: readonly EngineOperation[];
  /** How many calls fail, before the connection is there again. @default {Infinity} */
  readonly calls?: number;
  /** The engine does its part, and only its answer is lost. @default {false} */
  readonly answersOnly?: boolean;
}

/**
 * An engine around another one, whose connection can be lost, whose calls can hang, and whose leases
 * can be ended, all on demand. {@linkcode FaultyMailbox} is the same for a whole mailbox.
 *
 * @example
 * ```ts
 * import { type Engine, EngineMailbox, jsonCodec } from "@lastcall/lastcall/engine";
 * import { FaultyEngine } from "@lastcall/lastcall/testing";
 *
 * // A mailbox on an engine of your own, which fails to acknowledge once.
 * function unreliable(engine: Engine<string>) {
 *   const faulty = new FaultyEngine(engine);
 *   faulty.loseConnection({ operations: ["acknowledge"], calls: 1 });
 *   return new EngineMailbox<string, string, string>("orders", faulty, jsonCodec());
 * }
 * console.assert(unreliable.length === 1);
 * ```
 */
export class FaultyEngine<B> implements Engine<B> {
  readonly #inner: Engine<B>;
  readonly #delivered = new Map<string, Delivery<B>>();
  #lost: LostConnection | undefined;
  #callsToFail = 0;
  #frozen: readonly EngineOperation[] | undefined;
  #thawed: Deferred<void> = deferred();

  /** Wraps an engine, without faults at first. */
  constructor(inner: Engine<B>) {
    this.#inner = inner;
  }

  /** Those of the engine inside. */
  get capabilities(): Capabilities {
    return this.#inner.capabilities;
  }

  /** That of the engine inside. */
  get label(): string | undefined {
    return this.#inner.label;
  }

  /** From now on calls fail with `MailboxConnectionError`. */
  loseConnection(lost: LostConnection = {}): void {
    this.#lost = lost;
    this.#callsToFail = lost.calls ?? Infinity;
  }

  /** Calls succeed again. */
  restoreConnection(): void {
    this.#callsToFail = 0;
  }

  /** From now on calls of these operations, or of all, hang. */
  freeze(...operations: readonly EngineOperation[]): void {
    this.#frozen = operations;
  }

  /** Calls go on, also those that hang. */
  thaw(): void {
    this.#frozen = undefined;
    this.#thawed.resolve();
    this.#thawed = deferred();
  }

  /** Ends a lease, as if its visibility timeout had passed in this moment. */
  async expire({ receiptHandle }: { readonly receiptHandle: string }): Promise<void> {
    const delivery = this.#delivered.get(receiptHandle);
    if (delivery === undefined) throw new TypeError(`No delivery has receipt ${receiptHandle}`);
    await this.#inner.nack([delivery], 0, true);
  }

  /** Calls the inner engine, with the requested faults. */
  send(entries: readonly Entry<B>[]): Maybe<readonly boolean[]> {
    return this.#call("send", () => this.#inner.send(entries));
  }

  /** Fails or waits where it was told to; remembers receipts, so that they can be made stale. */
  receive(max: number, visibilityMs: number): Maybe<Received<B>> {
    return this.#call("receive", () => this.#remember(this.#inner.receive(max, visibilityMs)));
  }

  /** Calls the inner engine, with the requested faults. */
  acknowledge(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]> {
    return this.#call("acknowledge", () => this.#inner.acknowledge(deliveries));
  }

  /** Calls the inner engine, with the requested faults. */
  extend(deliveries: readonly Delivery<B>[], visibilityMs: number): Maybe<readonly boolean[]> {
    return this.#call("extend", () => this.#inner.extend(deliveries, visibilityMs));
  }

  /** Calls the inner engine, with the requested faults. */
  nack(
    deliveries: readonly Delivery<B>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Maybe<readonly boolean[]> {
    return this.#call("nack", () => this.#inner.nack(deliveries, delayMs, countsAttempt));
  }

  /** Calls the inner engine, with the requested faults. */
  release(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]> {
    return this.#call("release", () => this.#inner.release(deliveries));
  }

  /** Calls the inner engine, with the requested faults. */
  deadLetter(delivery: Delivery<B>, letter: Entry<B>): Maybe<boolean> {
    return this.#call("deadLetter", () => this.#inner.deadLetter(delivery, letter));
  }

  /** Calls the inner engine, with the requested faults. */
  checkpoint(delivery: Delivery<B>, checkpoint: B): Maybe<boolean> {
    return this.#call("checkpoint", () => this.#inner.checkpoint(delivery, checkpoint));
  }

  /** Calls the inner engine, with the requested faults. */
  peek(max: number): Maybe<readonly StoredMessage<B>[]> {
    return this.#call("peek", () => this.#inner.peek(max));
  }

  /** Calls the inner engine, with the requested faults. */
  count(): Maybe<number> {
    return this.#call("count", () => this.#inner.count());
  }

  /** Calls the inner engine, with the requested faults. */
  purge(): Maybe<number> {
    return this.#call("purge", () => this.#inner.purge());
  }

  /** Never fails: a wake is a hint. */
  onWake(listener: () => void): () => void {
    return this.#inner.onWake(listener);
  }

  /** Those of the engine inside, which do not fail. */
  deadLetters(): Engine<B> {
    return this.#inner.deadLetters();
  }

  /** Closes the engine inside. */
  close(): Maybe<void> {
    return this.#inner.close();
  }

  /** Without a fault nothing is added, not even a turn. */
  #call<T>(operation: EngineOperation, act: () => Maybe<T>): Maybe<T> {
    if (this.#frozen === undefined || !concerns(this.#frozen, operation)) {
      return this.#answer(operation, act);
    }
    return this.#thawed.promise.then(() => this.#call(operation, act));
  }

  #answer<T>(operation: EngineOperation, act: () => Maybe<T>): Maybe<T> {
    const { operations = [], answersOnly = false } = this.#lost ?? {};
    if (this.#callsToFail <= 0 || !concerns(operations, operation)) return act();
    this.#callsToFail--;
    return this.#fail(operation, answersOnly ? act() : undefined);
  }

  async #fail(operation: EngineOperation, done: unknown): Promise<never> {
    await done;
    throw new MailboxConnectionError(`The connection is lost: no answer to ${operation}`);
  }

  #remember(pulled: Maybe<Received<B>>): Maybe<Received<B>> {
    if (pulled instanceof Promise) return pulled.then((it) => this.#remember(it));
    for (const delivery of pulled.deliveries) this.#delivered.set(delivery.receiptHandle, delivery);
    return pulled;
  }
}

/** None named is all of them. */
function concerns(operations: readonly EngineOperation[], operation: EngineOperation): boolean {
  return operations.length === 0 || operations.includes(operation);
}
