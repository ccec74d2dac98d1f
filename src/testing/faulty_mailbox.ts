import { systemClock } from "../clock.ts";
import { identityCodec } from "../mailbox/codec.ts";
import { EngineMailbox } from "../mailbox/engine_mailbox.ts";
import type { InMemoryMailboxOptions } from "../mailbox/in_memory_mailbox.ts";
import { MemoryEngine } from "../mailbox/memory_engine.ts";
import { type EngineOperation, FaultyEngine, type LostConnection } from "./faulty_engine.ts";

/**
 * A mailbox in memory that fails on demand, for tests of outages: a lease that ends early, a lost
 * connection, an engine that does not answer.
 *
 * @example
 * ```ts
 * import { isMailboxError } from "@lastcall/lastcall";
 * import { FaultyMailbox } from "@lastcall/lastcall/testing";
 *
 * const orders = new FaultyMailbox<string>("orders");
 * await orders.send("tea");
 *
 * orders.loseConnection({ operations: ["receive"], calls: 1 });
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

  /** Creates an empty mailbox without faults. */
  constructor(name = "faulty", options: InMemoryMailboxOptions = {}) {
    const { maxSize = Infinity, clock = systemClock } = options;
    const engine = new FaultyEngine(new MemoryEngine<unknown>(name, maxSize, clock));
    super(name, engine, identityCodec, options);
    this.#engine = engine;
  }

  /** Ends the lease of a delivery: its receipt handle is invalid, and the message is visible. */
  async expire(message: { readonly receiptHandle: string }): Promise<void> {
    await this.#engine.expire(message);
  }

  /** Lets calls fail with `MailboxConnectionError` from now on; by default, all calls. */
  loseConnection(lost: LostConnection = {}): void {
    this.#engine.loseConnection(lost);
  }

  /** Lets calls succeed again. */
  restoreConnection(): void {
    this.#engine.restoreConnection();
  }

  /** Lets calls of these operations hang until {@linkcode thaw}; without arguments, all calls. */
  freeze(...operations: readonly EngineOperation[]): void {
    this.#engine.freeze(...operations);
  }

  /** Lets calls go on, also the ones that hang. */
  thaw(): void {
    this.#engine.thaw();
  }
}
