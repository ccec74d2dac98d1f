import { identityCodec } from "../mailbox/codec.ts";
import type { Engine } from "../mailbox/engine.ts";
import { EngineMailbox } from "../mailbox/engine_mailbox.ts";
import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import {
  BASIC_CAPABILITIES,
  type MailboxOptions,
  type SendManyOptions,
  type SendOptions,
  type SendResult,
} from "../mailbox/mailbox.ts";

/** A message that {@linkcode CollectingMailbox} recorded. */
export interface Collected<T> {
  /** The id that `send` returned. */
  readonly id: string;
  /** The body. */
  readonly body: T;
  /** The options of `send`. */
  readonly options: SendOptions;
}

/**
 * A mailbox in memory that records every sent message, for assertions about replies. Otherwise it is an
 * {@linkcode InMemoryMailbox}.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 * import { CollectingMailbox } from "@lastcall/lastcall/testing";
 *
 * const requests = new InMemoryMailbox<string, string>();
 * const replies = new CollectingMailbox<string>("replies");
 * await requests.send("ping", { replyTo: replies });
 *
 * const [request] = await requests.receive();
 * await request?.reply("pong");
 * console.assert(replies.bodies[0] === "pong");
 * ```
 */
export class CollectingMailbox<T, R = unknown> extends InMemoryMailbox<T, R> {
  /** All sent messages, first to last. */
  readonly sent: Collected<T>[] = [];

  /** The bodies of all sent messages, first to last. */
  get bodies(): T[] {
    return this.sent.map(({ body }) => body);
  }

  /** Stores and records a message. */
  override async send(body: T, options: SendOptions<R> = {}): Promise<SendResult> {
    const result = await super.send(body, options);
    this.sent.push({ id: result.id, body, options: options as SendOptions });
    return result;
  }

  /** Stores and records messages. */
  override async sendMany(
    bodies: readonly T[],
    options: SendManyOptions<T, R> = {},
  ): Promise<SendResult[]> {
    const results = await super.sendMany(bodies, options);
    for (const [i, body] of bodies.entries()) {
      const own = typeof options === "function" ? options(body, i) : options;
      this.sent.push({ id: results[i]!.id, body, options: own as SendOptions });
    }
    return results;
  }
}

/**
 * A mailbox that drops every message, for replies that a test ignores and for loops without work.
 *
 * @example
 * ```ts
 * import { NullMailbox } from "@lastcall/lastcall/testing";
 *
 * const nowhere = new NullMailbox<string>();
 * await nowhere.send("gone");
 * console.assert(await nowhere.approximateCount() === 0);
 * console.assert((await nowhere.receive()).length === 0);
 * ```
 */
export class NullMailbox<T, R = unknown> extends EngineMailbox<T, R, unknown> {
  /** Creates an empty mailbox. */
  constructor(name = "null", options: MailboxOptions = {}) {
    super(name, nullEngine(), identityCodec, options);
  }
}

/** Delivers nothing, so nothing can be settled. */
function nullEngine(): Engine<unknown> {
  return {
    capabilities: BASIC_CAPABILITIES,
    send: (entries) => entries.map(() => true),
    receive: () => ({ deliveries: [], nextDueMs: Infinity }),
    acknowledge: (deliveries) => deliveries.map(() => false),
    extend: (deliveries) => deliveries.map(() => false),
    nack: (deliveries) => deliveries.map(() => false),
    release: (deliveries) => deliveries.map(() => false),
    deadLetter: () => false,
    checkpoint: () => false,
    peek: () => [],
    count: () => 0,
    stats: () => ({ waiting: 0 }),
    purge: () => 0,
    onWake: () => () => {},
    deadLetters: nullEngine,
    close() {},
  };
}
