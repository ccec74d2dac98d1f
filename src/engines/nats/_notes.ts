import type { JetStreamError } from "./_errors.ts";
import { readAnswer } from "./_jetstream.ts";
import type { Queue } from "./_queue.ts";
import { FIRST_CONSUMER, type Streams } from "./_streams.ts";

/** How long a measured difference to the server's clock is used. */
const CLOCK_OFFSET_TTL_MS = 600_000;

/** Data about a message that the server cannot store with it. */
export interface Note {
  /** Deliveries that do not count as attempts. */
  readonly uncounted: number;
  /** How often the message was released. */
  readonly releases: number;
  readonly checkpoint?: string | undefined;
}

/** Most messages have no stored note. */
export const EMPTY_NOTE: Note = { uncounted: 0, releases: 0 };

/** A message and its note. */
export interface Noted {
  readonly consumer: string;
  readonly seq: number;
  readonly storedAt: string;
  /** How often the server has delivered the message, including deliveries that are no attempts. */
  readonly serverDeliveryCount: number;
  note: Note;
}

type Stored = readonly [storedAt: string, uncounted: number, releases: number, checkpoint?: string];

/** Reads a stored note. Returns undefined for one that this package did not write: the message has none then. */
export function noteOf(
  text: string,
): { readonly storedAt: string; readonly note: Note } | undefined {
  try {
    const stored: unknown = JSON.parse(text);
    if (!Array.isArray(stored)) return undefined;
    const [storedAt, uncounted, releases, checkpoint = undefined] = stored;
    const areCounts = Number.isSafeInteger(uncounted) && Number.isSafeInteger(releases);
    if (!areCounts || typeof (checkpoint ?? "") !== "string") return undefined;
    return { storedAt, note: { uncounted, releases, checkpoint: checkpoint ?? undefined } };
  } catch {
    return undefined; // not JSON
  }
}

/**
 * Notes about messages: uncounted attempts and the checkpoint. They are in a second stream, at most one
 * per message. The engine reads a note only when a message is delivered again. A message that succeeds at
 * the first attempt has none.
 */
export class Notes {
  readonly #queue: Queue;
  readonly #streams: Streams;
  /** The server's clock minus the monotonic clock, and when it was measured. */
  #clockOffset: { readonly ms: number; readonly at: number } | undefined;

  constructor(queue: Queue, streams: Streams) {
    this.#queue = queue;
    this.#streams = streams;
  }

  /** Reads the stored notes of messages. Only a message that was delivered before can have one. */
  async read(what: string, messages: readonly Noted[]): Promise<void> {
    const { jetStream, names } = this.#queue;
    const repeated = messages.filter(({ serverDeliveryCount }) => serverDeliveryCount > 1);
    await Promise.all(repeated.map(async (message) => {
      const which = { last_by_subj: this.#subject(message) };
      const found = await this.#streams.use(() => jetStream.get(what, names.notes, which));
      if (found === undefined) return;
      const stored = noteOf(found.text);
      if (stored?.storedAt === message.storedAt) message.note = stored.note;
    }));
  }

  /** Notes that a delivery of these messages does not count as an attempt. */
  uncount(what: string, messages: readonly Noted[]): Promise<void> {
    return this.change(what, messages, ({ uncounted }) => ({ uncounted: uncounted + 1 }));
  }

  /** Changes the notes of messages. Resolves when all are stored. */
  async change(
    what: string,
    messages: readonly Noted[],
    change: (note: Note) => Partial<Note>,
  ): Promise<void> {
    if (messages.length === 0) return;
    const { calls } = this.#queue;
    const notes = messages.map(({ note }): Note => ({ ...note, ...change(note) }));
    const outgoing = messages.map((message, i) => {
      const { uncounted, releases, checkpoint } = notes[i]!;
      const stored: Stored = [message.storedAt, uncounted, releases, checkpoint!];
      return { subject: this.#subject(message), payload: JSON.stringify(stored) };
    });
    await this.#streams.use(async () => {
      let failure: JetStreamError | undefined;
      await calls.store(what, outgoing, (answer) => {
        try {
          readAnswer(what, answer);
        } catch (error) {
          failure ??= error as JetStreamError;
        }
      });
      if (failure !== undefined) throw failure;
    });
    for (const [i, message] of messages.entries()) message.note = notes[i]!;
  }

  /** Deletes the notes of removed messages in the background. A note that is left behind does no harm. */
  delete(messages: readonly Noted[]): void {
    const { mailbox, jetStream, calls, names, log } = this.#queue;
    for (const message of messages) {
      if (message.note === EMPTY_NOTE) continue;
      const purged = jetStream.purge("clean up", names.notes, this.#subject(message));
      calls.track(purged).catch((error) => {
        log.debug("cannot delete the note of a removed message on NATS", { mailbox, error });
      });
    }
  }

  /**
   * Returns the server's time for a receive, which decides what has expired. A message without an envelope
   * does not expire, and costs no request.
   */
  async timeOfReceive(
    messages: readonly { readonly meta: string | undefined }[],
  ): Promise<number | undefined> {
    if (messages.every(({ meta }) => meta === undefined)) return undefined;
    const { mailbox, log } = this.#queue;
    try {
      return await this.serverTime(this.#queue.what("receive"));
    } catch (error) {
      log.debug("cannot read the clock of NATS; the local clock decides instead", {
        mailbox,
        error,
      });
      return undefined;
    }
  }

  /** Returns a lower bound of the server's time, in milliseconds since the Unix epoch. */
  async serverTime(what: string): Promise<number> {
    const { clock, jetStream, calls, names } = this.#queue;
    const { at = -Infinity } = this.#clockOffset ?? {};
    if (clock.monotonic() - at > CLOCK_OFFSET_TTL_MS) {
      const subject = `${names.noteSubjects}clock`;
      const time = await this.#streams.use(async () => {
        readAnswer(what, await calls.request(what, subject));
        const found = await jetStream.get(what, names.notes, { last_by_subj: subject });
        return Date.parse(found!.time);
      });
      this.#clockOffset = { ms: time - clock.monotonic(), at: clock.monotonic() };
    }
    return this.#clockOffset!.ms + clock.monotonic();
  }

  /** Adds the time, because a recreated stream reuses sequence numbers. */
  #subject({ consumer, seq, storedAt }: Noted): string {
    const key = consumer === FIRST_CONSUMER ? `${seq}` : `${seq}-${storedAt}`;
    return `${this.#queue.names.noteSubjects}${key}`;
  }
}
