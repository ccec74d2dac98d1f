import { InMemoryMailbox } from "../mailbox/in_memory_mailbox.ts";
import type { SendOptions } from "../mailbox/mailbox.ts";

/** What {@linkcode CollectingMailbox} keeps of a message. */
export interface Collected<T> {
  /** The one that `send` has returned. */
  readonly id: string;
  /** As it was sent. */
  readonly body: T;
  /** What it was sent with. */
  readonly options: SendOptions;
}

/**
 * A mailbox that remembers everything that was ever sent to it, for asserting replies. Otherwise it is
 * an {@linkcode InMemoryMailbox}.
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
  /** First to last. */
  readonly sent: Collected<T>[] = [];

  /** The bodies of what was sent, first to last. */
  get bodies(): T[] {
    return this.sent.map(({ body }) => body);
  }

  /** Stores it, and notes it down. */
  override async send(body: T, options: SendOptions<R> = {}): Promise<string> {
    const id = await super.send(body, options);
    this.sent.push({ id, body, options: options as SendOptions });
    return id;
  }

  /** Stores them, and notes each down. */
  override async sendMany(bodies: readonly T[], options: SendOptions<R> = {}): Promise<string[]> {
    const ids = await super.sendMany(bodies, options);
    for (const [i, body] of bodies.entries()) {
      this.sent.push({ id: ids[i]!, body, options: options as SendOptions });
    }
    return ids;
  }
}
