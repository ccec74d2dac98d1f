import { type JetStreamError, readAnswer } from "./_jetstream.ts";
import type { Queue } from "./_queue.ts";
import { FIRST_CONSUMER } from "./_streams.ts";

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
  note: Note;
}

type Stored = readonly [storedAt: string, uncounted: number, releases: number, checkpoint?: string];

/**
 * Notes about messages: uncounted attempts and the checkpoint. They are in a second stream, at most one
 * per message. The engine reads a note only when a message is delivered again. A message that succeeds at
 * the first attempt has none.
 */
export class Notes {
  readonly #queue: Queue;

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /** Reads the stored note of a message into `noted`. */
  async read(what: string, noted: Noted): Promise<void> {
    const { streams, jetStream, names } = this.#queue;
    const which = { last_by_subj: this.#subject(noted) };
    const found = await streams.use(() => jetStream.get(what, names.notes, which));
    if (found === undefined) return;
    const [storedAt, uncounted, releases, checkpoint] = JSON.parse(found.text) as Stored;
    if (storedAt === noted.storedAt) noted.note = { uncounted, releases, checkpoint };
  }

  /** Changes the notes of messages. Resolves when all are stored. */
  async change<N extends Noted>(
    what: string,
    messages: readonly N[],
    change: (note: Note) => Partial<Note>,
  ): Promise<void> {
    if (messages.length === 0) return;
    const { streams, calls } = this.#queue;
    const notes = messages.map(({ note }): Note => ({ ...note, ...change(note) }));
    const outgoing = messages.map((message, i) => {
      const { uncounted, releases, checkpoint } = notes[i]!;
      const stored: Stored = [message.storedAt, uncounted, releases, checkpoint!];
      return { subject: this.#subject(message), payload: JSON.stringify(stored) };
    });
    await streams.use(async () => {
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

  /** Returns a lower bound of the server's time, in milliseconds since the Unix epoch. */
  async serverTime(what: string): Promise<number> {
    const { streams, jetStream, calls, names } = this.#queue;
    const subject = `${names.noteSubjects}clock`;
    return await streams.use(async () => {
      readAnswer(what, await calls.request(what, subject));
      const found = await jetStream.get(what, names.notes, { last_by_subj: subject });
      return Date.parse(found!.time);
    });
  }

  /** Adds the time, because a recreated stream reuses sequence numbers. */
  #subject({ consumer, seq, storedAt }: Noted): string {
    const key = consumer === FIRST_CONSUMER ? `${seq}` : `${seq}-${storedAt}`;
    return `${this.#queue.names.noteSubjects}${key}`;
  }
}
