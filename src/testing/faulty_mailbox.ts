import { systemClock } from "../clock.ts";
import { identityCodec } from "../mailbox/codec.ts";
import { EngineMailbox } from "../mailbox/engine_mailbox.ts";
import type { InMemoryMailboxOptions } from "../mailbox/in_memory_mailbox.ts";
import { MemoryEngine } from "../mailbox/in_memory_mailbox.ts";
import { type EngineOperation, FaultyEngine, type LostConnection } from "./faulty_engine.ts";

/**
 * A mailbox in memory that fails on demand, for proving what a program does when its engine does:
 * a lease that ends early, a connection that is lost, an engine that does not answer.
 *
 * @example
 * ```ts
 * import { isMailboxError } from "@lastcall/lastcall";
 * import { FaultyMailbox } from "@lastcall/lastcall/testing";
 *
 * const orders = new FaultyMailbox<string>("orders");
 * await orders.send("tea");
 *
 * orders.loseConnection({ operations: ["pull"], calls: 1 });
 * const outage = await orders.receive().catch((error) => error);
 * console.assert(isMailboxError(outage, "MailboxConnectionError"));
 *
 * const [message] = await orders.receive();
 * await orders.expire(message!);
 * const late = await message!.acknowledge().catch((error) => error);
 * console.assert(isMailboxError(late, "ReceiptHandleExpiredError"));
 * ```
 */
export class FaultyMailbox<T, R = unknown> extends EngineMailbox<T, R, unknown> {
  readonly #engine: FaultyEngine<unknown>;

  /** In memory, and in order until it is told to fail. */
  constructor(name = "faulty", options: InMemoryMailboxOptions = {}) {
    const { maxSize = Infinity, clock = systemClock } = options;
    const engine = new FaultyEngine(new MemoryEngine<unknown>(name, maxSize, clock));
    super(name, engine, identityCodec, options);
    this.#engine = engine;
  }

  /** Ends the lease of a delivery: its handle is stale and the message is there for others. */
  async expire(message: { readonly receiptHandle: string }): Promise<void> {
    await this.#engine.expire(message);
  }

  /** From now on calls fail with `MailboxConnectionError`, all of them unless told otherwise. */
  loseConnection(lost: LostConnection = {}): void {
    this.#engine.loseConnection(lost);
  }

  /** Calls succeed again. */
  restoreConnection(): void {
    this.#engine.restoreConnection();
  }

  /** From now on calls of these operations, or of all, hang until {@linkcode thaw}. */
  freeze(...operations: readonly EngineOperation[]): void {
    this.#engine.freeze(...operations);
  }

  /** Calls go on, also those that hang. */
  thaw(): void {
    this.#engine.thaw();
  }
}
