import { type Deferred, deferred } from "../_promises.ts";
import type {
  Delivery,
  Engine,
  EngineStats,
  Entry,
  Handover,
  Maybe,
  Received,
  StoredMessage,
} from "../mailbox/engine.ts";
import { MailboxConnectionError } from "../mailbox/errors.ts";
import type { Capabilities, RateLimit } from "../mailbox/mailbox.ts";

/** The calls of an engine that can fail or hang. */
export type EngineOperation = Exclude<
  keyof Engine<unknown>,
  | "capabilities"
  | "label"
  | "trouble"
  | "offThread"
  | "onWake"
  | "onCancel"
  | "deadLetters"
  | "transaction"
  | "queue"
  | "queues"
  | "drop"
  | "close"
>;

/** How a connection is lost. */
export interface LostConnection {
  /** Which operations fail. @default all */
  readonly operations?: readonly EngineOperation[];
  /** How many calls fail until the connection is restored. @default {Infinity} */
  readonly calls?: number;
  /** True when the engine carries out the call and only its answer is lost. @default {false} */
  readonly answersOnly?: boolean;
}

/**
 * Wraps an engine, and on demand loses its connection, lets its calls hang, or ends its leases.
 * `FaultyMailbox` does the same for a mailbox in memory.
 *
 * @example
 * ```ts
 * import { type Engine, EngineMailbox, jsonCodec } from "@lastcall/lastcall/engine";
 * import { FaultyEngine } from "@lastcall/lastcall/testing";
 *
 * // A mailbox on your own engine, which fails to acknowledge once.
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
  /** How many leases of each message `expire` has ended. For the wrapped engine they were nacked. */
  readonly #expiries = new Map<string, number>();
  #lost: LostConnection | undefined;
  #callsToFail = 0;
  #frozen: readonly EngineOperation[] | undefined;
  #thawed: Deferred<void> = deferred();

  /** Wraps an engine. There are no faults at first. */
  constructor(inner: Engine<B>) {
    this.#inner = inner;
  }

  /** The capabilities of the wrapped engine. */
  get capabilities(): Capabilities {
    return this.#inner.capabilities;
  }

  /** The label of the wrapped engine. */
  get label(): string | undefined {
    return this.#inner.label;
  }

  /** The trouble of the wrapped engine. */
  get trouble(): string | undefined {
    return this.#inner.trouble;
  }

  /** Lets calls fail with `MailboxConnectionError` from now on. */
  loseConnection(lost: LostConnection = {}): void {
    this.#lost = lost;
    this.#callsToFail = lost.calls ?? Infinity;
  }

  /** Lets calls succeed again. */
  restoreConnection(): void {
    this.#callsToFail = 0;
  }

  /** Lets calls of these operations hang from now on; without arguments, all calls. */
  freeze(...operations: readonly EngineOperation[]): void {
    this.#frozen = operations;
  }

  /** Lets calls go on, also the ones that hang. */
  thaw(): void {
    this.#frozen = undefined;
    this.#thawed.resolve();
    this.#thawed = deferred();
  }

  /** Ends a lease, as if its visibility timeout passed now. */
  async expire({ receiptHandle }: { readonly receiptHandle: string }): Promise<void> {
    const delivery = this.#delivered.get(receiptHandle);
    if (delivery === undefined) {
      throw new TypeError(
        `Cannot expire the receipt handle ${receiptHandle}: no delivery of this engine has it`,
      );
    }
    const [expired] = await this.#inner.nack([delivery], 0, true);
    const { id } = delivery;
    if (expired) this.#expiries.set(id, (this.#expiries.get(id) ?? 0) + 1);
  }

  /** Calls the wrapped engine, with the requested faults. */
  send(entries: readonly Entry<B>[]): Maybe<readonly boolean[]> {
    return this.#call("send", () => this.#inner.send(entries));
  }

  /** Calls the wrapped engine, with the requested faults, and keeps the deliveries for `expire`. */
  receive(max: number, visibilityMs: number, waits?: boolean): Maybe<Received<B>> {
    return this.#call("receive", () => {
      return this.#remember(this.#inner.receive(max, visibilityMs, waits));
    });
  }

  /** Calls the wrapped engine, with the requested faults. */
  acknowledge(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]> {
    return this.#call("acknowledge", () => this.#inner.acknowledge(deliveries));
  }

  /** Calls the wrapped engine, with the requested faults. */
  extend(deliveries: readonly Delivery<B>[], visibilityMs: number): Maybe<readonly boolean[]> {
    return this.#call("extend", () => this.#inner.extend(deliveries, visibilityMs));
  }

  /** Calls the wrapped engine, with the requested faults. */
  nack(
    deliveries: readonly Delivery<B>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Maybe<readonly boolean[]> {
    return this.#call("nack", () => this.#inner.nack(deliveries, delayMs, countsAttempt));
  }

  /** Calls the wrapped engine, with the requested faults. */
  release(deliveries: readonly Delivery<B>[]): Maybe<readonly boolean[]> {
    return this.#call("release", () => this.#inner.release(deliveries));
  }

  /** Calls the wrapped engine, with the requested faults. */
  deadLetter(delivery: Delivery<B>, letter: Entry<B>): Maybe<boolean> {
    return this.#call("deadLetter", () => this.#inner.deadLetter(delivery, letter));
  }

  /** Calls the wrapped engine, with the requested faults. */
  checkpoint(delivery: Delivery<B>, checkpoint: B): Maybe<boolean> {
    return this.#call("checkpoint", () => this.#inner.checkpoint(delivery, checkpoint));
  }

  /** Calls the wrapped engine, with the requested faults. */
  peek(max: number, skip?: number): Maybe<readonly StoredMessage<B>[]> {
    return this.#call("peek", () => this.#inner.peek(max, skip));
  }

  /** Calls the wrapped engine, with the requested faults. */
  count(): Maybe<number> {
    return this.#call("count", () => this.#inner.count());
  }

  /** Calls the wrapped engine, with the requested faults. */
  stats(): Maybe<EngineStats> {
    return this.#call("stats", () => this.#inner.stats());
  }

  /** Calls the wrapped engine, with the requested faults. */
  find(id: string): Maybe<StoredMessage<B> | undefined> {
    return this.#call("find", () => this.#inner.find?.(id));
  }

  /** Calls the wrapped engine, with the requested faults. */
  cancel(id: string): Maybe<boolean> {
    return this.#call("cancel", () => this.#inner.cancel?.(id) ?? false);
  }

  /** Calls the wrapped engine, with the requested faults. */
  deliverNow(id: string): Maybe<boolean> {
    return this.#call("deliverNow", () => this.#inner.deliverNow?.(id) ?? false);
  }

  /** Calls the wrapped engine, with the requested faults. */
  pause(forMs: number): Maybe<void> {
    return this.#call("pause", () => this.#inner.pause?.(forMs));
  }

  /** Calls the wrapped engine, with the requested faults. */
  rateLimit(limit: RateLimit | undefined): Maybe<void> {
    return this.#call("rateLimit", () => this.#inner.rateLimit?.(limit));
  }

  /** Returns another queue of the wrapped engine, which has no faults. */
  queue(name: string): Engine<B> {
    if (this.#inner.queue !== undefined) return this.#inner.queue(name);
    throw new TypeError(`Cannot open queue "${name}": the wrapped engine has one queue`);
  }

  /** Returns the names of the queues of the wrapped engine. Never fails. */
  queues(): Maybe<readonly string[]> {
    return this.#inner.queues?.() ?? [];
  }

  /** Listens to the wrapped engine. Never fails. */
  onCancel(listener: (id: string) => void): () => Maybe<void> {
    return this.#inner.onCancel?.(listener) ?? (() => {});
  }

  /** Calls the wrapped engine, with the requested faults. */
  purge(): Maybe<number> {
    return this.#call("purge", () => this.#inner.purge());
  }

  /** Listens to the wrapped engine. Never fails. */
  onWake(listener: (handover?: Handover<B>) => void): () => Maybe<void> {
    return this.#inner.onWake((handover) => listener(handover && this.#keep(handover)));
  }

  /** Returns the dead letters of the wrapped engine, which have no faults. */
  deadLetters(): Engine<B> {
    return this.#inner.deadLetters();
  }

  /** Closes the wrapped engine. */
  close(): Maybe<void> {
    return this.#inner.close();
  }

  /** Adds nothing to a call without a fault, not even a turn. */
  #call<T>(operation: EngineOperation, act: () => Maybe<T>): Maybe<T> {
    if (this.#frozen === undefined || !affects(this.#frozen, operation)) {
      return this.#answer(operation, act);
    }
    return this.#thawed.promise.then(() => this.#call(operation, act));
  }

  #answer<T>(operation: EngineOperation, act: () => Maybe<T>): Maybe<T> {
    const { operations = [], answersOnly = false } = this.#lost ?? {};
    if (this.#callsToFail <= 0 || !affects(operations, operation)) return act();
    this.#callsToFail--;
    return this.#fail(operation, answersOnly ? act() : undefined);
  }

  async #fail(operation: EngineOperation, done: unknown): Promise<never> {
    await done;
    throw new MailboxConnectionError(`The connection is lost: no answer to ${operation}`);
  }

  #remember(received: Maybe<Received<B>>): Maybe<Received<B>> {
    return received instanceof Promise
      ? received.then((it) => this.#keep(it))
      : this.#keep(received);
  }

  #keep<R extends Received<B>>(received: R): R {
    for (const delivery of received.deliveries) {
      this.#delivered.set(delivery.receiptHandle, delivery);
      const { id, leaseExpiries = 0 } = delivery;
      const expiries = this.#expiries.get(id);
      if (expiries === undefined) continue;
      // The wrapped engine needs its own object back.
      Object.defineProperty(delivery, "leaseExpiries", { value: leaseExpiries + expiries });
    }
    return received;
  }
}

/** Returns whether a fault affects an operation. An empty list affects all. */
function affects(operations: readonly EngineOperation[], operation: EngineOperation): boolean {
  return operations.length === 0 || operations.includes(operation);
}
