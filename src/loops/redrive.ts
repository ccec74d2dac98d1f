import { checkCount, show } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { type Lease, LeaseExtender } from "../lease/lease_extender.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import { checkId, checkStoredEnvelope, readEnvelope } from "../mailbox/envelope.ts";
import type { DeadLetter, Mailbox, Message, SendOptions } from "../mailbox/mailbox.ts";

/** Options of {@linkcode redrive}. */
export interface RedriveOptions<T> {
  /**
   * The ids of the dead letters to redrive. Each stands for one letter, the oldest with this id. Ids without a
   * letter are skipped, and so are letters in flight, which another process redrives. @default {all}
   */
  readonly ids?: readonly string[];
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
 * Sends dead letters back to their mailbox, oldest first or in the order of `ids`, and returns how many. Each
 * message is stored with its old id and checkpoint. If another message with that id is in the mailbox, it is
 * stored with a new id. Letters that cannot be read stay.
 *
 * A letter is removed only after its message is stored. When the process dies in between, the next redrive
 * stores the message a second time. The same happens when a process redrives a letter by its id between the two
 * steps of another process. Do not redrive one id from two processes at the same time while several letters have
 * it: one of these letters may be removed unsent. Without `ids`, a letter that one process redrives is hidden from
 * the others.
 */
export async function redrive<T>(
  mailbox: Mailbox<T>,
  options: RedriveOptions<T> = {},
): Promise<number> {
  const { maxMessages = Infinity, ids } = options;
  checkCount("maxMessages", maxMessages);
  if (ids !== undefined && !Array.isArray(ids)) {
    throw new TypeError(`Invalid ids: expected a list of message ids, got ${show(ids)}`);
  }
  ids?.forEach(checkId);
  const { deadLetters } = mailbox;
  if (deadLetters === undefined) {
    throw new TypeError(`Mailbox "${mailbox.name}" keeps no dead letters`);
  }
  return ids !== undefined && deadLetters.capabilities.lookup
    ? await redriveByIds(mailbox, deadLetters, ids, options)
    : await redriveReceived(mailbox, deadLetters, options);
}

/** Finds the letters by their ids. */
async function redriveByIds<T>(
  mailbox: Mailbox<T>,
  deadLetters: Mailbox<DeadLetter<T>>,
  ids: readonly string[],
  { maxMessages = Infinity, only = () => true, onRedriven }: RedriveOptions<T>,
): Promise<number> {
  let redriven = 0;
  for (const id of ids) {
    if (redriven === maxMessages) break;
    // In this order: when another process redrives the letter meanwhile, one of the two sends is a duplicate.
    const isTaken = await mailbox.get(id) !== undefined;
    const found = await deadLetters.get(id);
    // A letter in flight belongs to the process that has received it, such as another redrive.
    if (found === undefined || found.state === "inFlight") continue;
    const letter = found.body;
    if (!isReadable(letter) || !only(letter)) continue;
    const options = { ...optionsOf(letter), ...(isTaken ? {} : { id }) };
    const { stored } = await mailbox.send(letter.body as T, options);
    // Another process may have removed the letter meanwhile: a second letter with this id must stay.
    const next = stored ? await deadLetters.get(id) : undefined;
    if (next?.body.deadAt !== letter.deadAt || !await deadLetters.cancel(id)) continue;
    redriven++;
    onRedriven?.(letter);
  }
  return redriven;
}

/** Receives the letters one after another, those with the `ids` or all. */
async function redriveReceived<T>(
  mailbox: Mailbox<T>,
  deadLetters: Mailbox<DeadLetter<T>>,
  { ids, maxMessages = Infinity, only = () => true, clock = systemClock, onRedriven }:
    RedriveOptions<T>,
): Promise<number> {
  const leases = new LeaseExtender({ clock, offThread: false }).leases({
    mailbox: deadLetters as Mailbox<unknown>,
    visibilityTimeoutMs: HIDDEN_MS,
  });
  const missing = ids && [...ids];
  // Skipped letters stay leased to the end; released at once, they would be received again.
  const held: { readonly message: Message<DeadLetter<T>>; readonly lease: Lease }[] = [];
  let redriven = 0;
  try {
    while (redriven < maxMessages && missing?.length !== 0) {
      const [message] = await deadLetters.receive({ visibilityTimeoutMs: HIDDEN_MS });
      if (message === undefined) break;
      const lease = leases.take(message as Message<unknown>);
      held.push({ message, lease });
      const { body: letter } = message;
      const index = missing?.indexOf(Object(letter).id) ?? 0;
      if (index < 0) continue;
      missing?.splice(index, 1);
      if (!isReadable(letter) || !only(letter)) continue;
      await sendBack(mailbox, letter);
      await lease.stop();
      await message.acknowledge();
      held.pop();
      redriven++;
      onRedriven?.(letter);
    }
  } finally {
    for (const { message, lease } of held) {
      await lease.stop();
      await release(message);
    }
  }
  return redriven;
}

/** Returns false for a letter whose message has a body that the codec could not decode, and for no letter. */
function isReadable<T>(letter: DeadLetter<T>): boolean {
  if (typeof letter !== "object" || letter === null || !("body" in letter)) return false;
  try {
    checkId(letter.id);
    checkStoredEnvelope(letter);
    return true;
  } catch {
    return false; // another program wrote it
  }
}

/** Stores the message: with its old id, or with a new one if that is taken. */
async function sendBack<T>(mailbox: Mailbox<T>, letter: DeadLetter<T>): Promise<void> {
  const options = optionsOf(letter);
  const { stored } = await mailbox.send(letter.body as T, { ...options, id: letter.id });
  if (!stored) await mailbox.send(letter.body as T, options);
}

/** Returns the options with which the message was sent, and its last checkpoint. */
function optionsOf(letter: DeadLetter<unknown>): SendOptions {
  const { checkpoint } = letter;
  return { ...readEnvelope(letter), ...(checkpoint === undefined ? {} : { checkpoint }) };
}

/** Releases a message unless its lease has expired. */
async function release(message: Message<unknown>): Promise<void> {
  try {
    await message.release();
  } catch (error) {
    if (!isMailboxError(error, "ReceiptHandleExpiredError")) throw error;
  }
}
