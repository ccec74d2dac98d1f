import { checkCount } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import { type Codec, identityCodec } from "./codec.ts";
import { EngineMailbox } from "./engine_mailbox.ts";
import type { MailboxOptions } from "./mailbox.ts";
import { MemoryEngine } from "./memory_engine.ts";

/** Options of {@linkcode InMemoryMailbox}. */
export interface InMemoryMailboxOptions extends MailboxOptions {
  /** The most messages that it stores; a `send` above it throws. @default {Infinity} */
  readonly maxSize?: number;
}

/**
 * Keeps messages in the memory of this process, and implements the whole contract. Bodies are not copied.
 * The messages are lost when the process ends.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 *
 * const orders = new InMemoryMailbox<{ item: string }>("orders");
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive();
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * ```
 */
export class InMemoryMailbox<T, R = unknown> extends EngineMailbox<T, R, unknown> {
  /**
   * Creates an empty mailbox. Two mailboxes with the same name share nothing.
   *
   * @throws {TypeError | RangeError} when the name or an option is invalid.
   */
  constructor(name = "memory", options: InMemoryMailboxOptions = {}) {
    const maxSize = checkCount("maxSize", options.maxSize ?? Infinity);
    const engine = new MemoryEngine<unknown>(name, maxSize, options.clock ?? systemClock);
    super(name, engine, identityCodec as Codec<unknown>, options);
  }
}
