import { checkCount } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import { type Codec, identityCodec } from "./codec.ts";
import { EngineMailbox } from "./engine_mailbox.ts";
import type { MailboxOptions } from "./mailbox_options.ts";
import { MemoryEngine } from "./memory_engine.ts";

/** Options of {@linkcode InMemoryMailbox}. */
export interface InMemoryMailboxOptions extends MailboxOptions {
  /** Above this `send` is refused; nothing is ever evicted. @default {Infinity} */
  readonly maxSize?: number;
}

/**
 * A mailbox in the memory of this process, with the whole contract. Bodies are kept as they are, not
 * copied; what is in it ends with the process.
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
  /** Nothing is shared between two mailboxes of the same name. */
  constructor(name = "memory", options: InMemoryMailboxOptions = {}) {
    const maxSize = checkCount("maxSize", options.maxSize ?? Infinity);
    const engine = new MemoryEngine<unknown>(name, maxSize, options.clock ?? systemClock);
    super(name, engine, identityCodec as Codec<unknown>, options);
  }
}
