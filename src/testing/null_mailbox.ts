import { identityCodec } from "../mailbox/codec.ts";
import type { Engine } from "../mailbox/engine.ts";
import { EngineMailbox } from "../mailbox/engine_mailbox.ts";
import { FULL_CAPABILITIES } from "../mailbox/mailbox.ts";
import type { MailboxOptions } from "../mailbox/mailbox.ts";

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

/** Nothing is ever delivered, so nothing can be settled. */
function nullEngine(): Engine<unknown> {
  return {
    capabilities: FULL_CAPABILITIES,
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
    purge: () => 0,
    onWake: () => () => {},
    deadLetters: nullEngine,
    close() {},
  };
}
