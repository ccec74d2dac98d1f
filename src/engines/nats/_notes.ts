import { type Calls, noResponders } from "./_calls.ts";
import { JetStreamError, NO_MESSAGE, NO_RESPONDERS } from "./_errors.ts";
import { type JetStream, textOf } from "./_jetstream.ts";
import type { Log } from "../../log.ts";
import type { NatsConnection, NatsMessage } from "./nats_connection.ts";
import type { Names } from "./_names.ts";
import { FIRST_CONSUMER } from "./_set_up.ts";
import type { Streams } from "./_streams.ts";

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
export interface NotedMessage {
  readonly consumer: string;
  readonly seq: number;
  readonly storedAt: string;
  readonly note: Note;
}

type Stored = readonly [storedAt: string, uncounted: number, releases: number, checkpoint?: string];

export interface NotesOptions {
  readonly connection: NatsConnection;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly streams: Streams;
  readonly names: Names;
  readonly log: Log;
}

/**
 * Notes about messages: uncounted attempts and the checkpoint. They are in a second stream, at most one
 * per message. The engine reads a note only when a message is delivered again. A message that succeeds at
 * the first attempt has none.
 */
export class Notes {
  readonly #connection: NatsConnection;
  readonly #calls: Calls;
  readonly #jetStream: JetStream;
  readonly #streams: Streams;
  readonly #names: Names;
  readonly #log: Log;

  constructor({ connection, calls, jetStream, streams, names, log }: NotesOptions) {
    this.#connection = connection;
    this.#calls = calls;
    this.#jetStream = jetStream;
    this.#streams = streams;
    this.#names = names;
    this.#log = log;
  }

  async read(what: string, noted: Omit<NotedMessage, "note">): Promise<Note> {
    const { storedAt } = noted;
    const which = { last_by_subj: this.#subject(noted) };
    try {
      const found = await this.#streams.use(() => {
        return this.#jetStream.get(what, this.#names.notes, which);
      });
      const [of, uncounted, releases, checkpoint] = JSON.parse(textOf(found)) as Stored;
      return of === storedAt ? { uncounted, releases, checkpoint } : EMPTY_NOTE;
    } catch (error) {
      if (error instanceof JetStreamError && error.code === NO_MESSAGE) return EMPTY_NOTE;
      throw error;
    }
  }

  /** Resolves when all notes are stored. */
  async write(what: string, noted: readonly NotedMessage[]): Promise<void> {
    if (noted.length > 0) await this.#streams.use(() => this.#write(what, noted));
  }

  async #write(what: string, noted: readonly NotedMessage[]): Promise<void> {
    let missing = noted.length;
    let failure: JetStreamError | undefined;
    const onAnswer = (message: NatsMessage) => {
      failure ??= errorIn(what, message);
      return --missing === 0;
    };
    await this.#calls.run(what, (reply) => {
      for (const each of noted) {
        const { storedAt, note } = each;
        const stored: Stored = [storedAt, note.uncounted, note.releases, note.checkpoint!];
        this.#connection.publish(this.#subject(each), JSON.stringify(stored), { reply });
      }
    }, { onAnswer });
    if (failure !== undefined) throw failure;
  }

  /** Deletes the notes of removed messages in the background. A note that is left behind does no harm. */
  delete(noted: readonly NotedMessage[]): void {
    for (const each of noted) {
      if (each.note === EMPTY_NOTE) continue;
      const purged = this.#jetStream.purge("clean up", this.#names.notes, this.#subject(each));
      this.#calls.background(purged).catch((error) => {
        this.#log.debug("could not delete the note of a removed message", { error });
      });
    }
  }

  /** Returns a lower bound of the server's time, in milliseconds since the Unix epoch. */
  async serverTime(what: string): Promise<number> {
    const subject = `${this.#names.noteSubjects}clock`;
    return await this.#streams.use(async () => {
      await this.#calls.request(what, subject);
      const which = { last_by_subj: subject };
      const { time } = await this.#jetStream.get(what, this.#names.notes, which);
      return Date.parse(time);
    });
  }

  /** Adds the time, because a recreated stream reuses sequence numbers. */
  #subject({ consumer, seq, storedAt }: Omit<NotedMessage, "note">): string {
    const key = consumer === FIRST_CONSUMER ? `${seq}` : `${seq}-${storedAt}`;
    return `${this.#names.noteSubjects}${key}`;
  }
}

const decoder = new TextDecoder();

/** Returns the error of an answer, or undefined when the note was stored. */
function errorIn(what: string, { headers, data }: NatsMessage): JetStreamError | undefined {
  if (headers !== undefined && headers.code > 0) {
    const { code, description } = headers;
    return code === NO_RESPONDERS
      ? noResponders(what)
      : new JetStreamError(what, code, description);
  }
  const { error } = JSON.parse(decoder.decode(data)) as {
    readonly error?: { readonly description?: string };
  };
  return error && new JetStreamError(what, 0, error.description ?? "refused");
}
