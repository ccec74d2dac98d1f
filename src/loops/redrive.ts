import { checkCount } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { type Lease, LeaseExtender } from "../lease/lease_extender.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import { readEnvelope } from "../mailbox/envelope.ts";
import type { DeadLetter, Mailbox, Message, SendOptions } from "../mailbox/mailbox.ts";

/** Options of {@linkcode redrive}. */
export interface RedriveOptions<T> {
  /** The most messages to redrive. @default {Infinity} */
  readonly maxMessages?: number;
  /** Selects the dead letters to redrive. @default {all} */
  readonly only?: (letter: DeadLetter<T>) => boolean;
  /** Called after each dead letter was sent, so that the count is known when a later one fails. */
  readonly onRedriven?: (letter: DeadLetter<T>) => void;
  /** The source of time. @default {systemClock} */
  readonly clock?: Clock;
}

/** The visibility timeout of a dead letter during the redrive; its lease is extended in time. */
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
  // Skipped letters stay leased to the end; released at once, they would be received again.
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
      await release(message);
    }
  }
  return redriven;
}

/** Resolves when the message is stored: with its old id, or with a new one if that is taken. */
async function sendBack<T>(mailbox: Mailbox<T>, letter: DeadLetter<T>): Promise<void> {
  const { id, body, checkpoint } = letter;
  const options: SendOptions = {
    ...readEnvelope(letter),
    ...(checkpoint === undefined ? {} : { checkpoint }),
  };
  const { stored } = await mailbox.send(body as T, { ...options, id });
  if (!stored) await mailbox.send(body as T, options);
}

/** Releases a message unless its lease has expired. */
async function release(message: Message<unknown>): Promise<void> {
  try {
    await message.release();
  } catch (error) {
    if (!isMailboxError(error, "ReceiptHandleExpiredError")) throw error;
  }
}
