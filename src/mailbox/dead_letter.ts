import { checkCount } from "../_checks.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { Lease } from "../lease/lease.ts";
import { LeaseExtender } from "../lease/lease_extender.ts";
import type { Delivery } from "./engine.ts";
import { isMailboxError } from "./errors.ts";
import type { DeadLetter, DeadLetterReason, Mailbox, Message } from "./mailbox.ts";

/** Writes the letter for a delivery: everything that is known of the message, and why it is here. */
export function deadLetterOf<T>(
  delivery: Delivery<unknown>,
  content: { readonly body: T } | { readonly raw: string },
  checkpoint: unknown,
  reason: DeadLetterReason,
  deadAt: number,
  trace?: TraceContext,
): DeadLetter<T> {
  const { id, deliveryCount, enqueuedAt, replyTo } = delivery;
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  return {
    id,
    ...content,
    ...reason,
    deliveryCount,
    enqueuedAt,
    deadAt,
    ...(address === undefined ? {} : { replyTo: address }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(trace === undefined ? {} : { trace }),
  };
}

/** Options of {@linkcode redrive}. */
export interface RedriveOptions<T> {
  /** How many at the most. @default {Infinity} */
  readonly maxMessages?: number;
  /** Which ones; the others stay. */
  readonly only?: (letter: DeadLetter<T>) => boolean;
  /** Called for each letter after it was sent back, so that an error later leaves the count known. */
  readonly onRedriven?: (letter: DeadLetter<T>) => void;
  /** Where time comes from. @default {systemClock} */
  readonly clock?: Clock;
}

/** How long a letter is hidden from others while it is looked at; it is extended before that is over. */
const HIDDEN_MS = 60_000;

/**
 * Sends dead letters back to their mailbox, oldest first, and returns how many. Each message is stored
 * with its old id and checkpoint. If another message with that id is in the mailbox, it is stored with a
 * new id. A letter is removed only after its message is stored; when the process dies in between, the
 * next redrive stores the message a second time. Letters that cannot be read stay.
 */
export async function redrive<T>(
  mailbox: Mailbox<T>,
  options: RedriveOptions<T> = {},
): Promise<number> {
  const { maxMessages = Infinity, only = () => true, clock = systemClock } = options;
  checkCount("maxMessages", maxMessages);
  const { deadLetters } = mailbox;
  if (deadLetters === undefined) {
    throw new TypeError(`Mailbox "${mailbox.name}" keeps no dead letters`);
  }
  const leases = new LeaseExtender({ clock, offThread: false }).leases({
    mailbox: deadLetters as Mailbox<unknown>,
    visibilityTimeoutMs: HIDDEN_MS,
  });
  // What is passed over stays hidden to the end: it would come again, and again.
  const held: { readonly message: Message<DeadLetter<T>>; readonly lease: Lease }[] = [];
  let redriven = 0;
  try {
    while (redriven < maxMessages) {
      const [message] = await deadLetters.receive({ visibilityTimeoutMs: HIDDEN_MS });
      if (message === undefined) break;
      const lease = leases.take(message as Message<unknown>);
      held.push({ message, lease });
      const { body: letter } = message;
      if (!("body" in letter) || !only(letter)) continue;
      await sendBack(mailbox, letter);
      await lease.stop();
      await message.acknowledge();
      held.pop();
      redriven++;
      options.onRedriven?.(letter);
    }
  } finally {
    for (const { message, lease } of held) {
      await lease.stop();
      await giveBack(message);
    }
  }
  return redriven;
}

/** Resolves only when the message is stored, with an id of its own. */
async function sendBack<T>(mailbox: Mailbox<T>, letter: DeadLetter<T>): Promise<void> {
  const { id, replyTo, body, trace, checkpoint } = letter;
  const options = {
    ...(replyTo === undefined ? {} : { replyTo }),
    ...(trace === undefined ? {} : { trace }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
  };
  let isDuplicate = false;
  await mailbox.send(body as T, { ...options, id, onDuplicate: () => isDuplicate = true });
  if (isDuplicate) await mailbox.send(body as T, options);
}

/** A letter whose lease has ended is back already. */
async function giveBack(message: Message<unknown>): Promise<void> {
  try {
    await message.release();
  } catch (error) {
    if (!isMailboxError(error, "ReceiptHandleExpiredError")) throw error;
  }
}
