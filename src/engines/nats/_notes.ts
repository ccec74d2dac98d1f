import type { Calls } from "./_calls.ts";
import { JetStreamError, NO_MESSAGE } from "./_errors.ts";
import { type JetStream, textOf } from "./_jetstream.ts";
import type { Log } from "../../log.ts";
import type { NatsConnection, NatsMessage } from "./nats_connection.ts";
import type { Names } from "./_names.ts";

/** What the server cannot keep with a message. */
export interface Note {
  /** Deliveries that do not count. */
  readonly free: number;
  /** How often it was released. */
  readonly releases: number;
  readonly progress?: string | undefined;
}

/** Of most messages nothing is noted. */
export const NOTHING_NOTED: Note = { free: 0, releases: 0 };

/** What notes are about. */
export interface Noted {
  readonly seq: number;
  readonly storedAt: string;
  readonly note: Note;
}

/** A number comes again when a stream is deleted and made again; a number and a time do not. */
type Stored = readonly [storedAt: string, free: number, releases: number, progress?: string];

/**
 * Notes about messages, in a stream beside theirs, one for each: attempts that were given back, and
 * progress. They are read only when a message is delivered again, and there are none for those that
 * are done the first time.
 */
export class Notes {
  readonly #connection: NatsConnection;
  readonly #calls: Calls;
  readonly #jetStream: JetStream;
  readonly #names: Names;
  readonly #log: Log;

  constructor(
    connection: NatsConnection,
    calls: Calls,
    jetStream: JetStream,
    names: Names,
    log: Log,
  ) {
    this.#connection = connection;
    this.#calls = calls;
    this.#jetStream = jetStream;
    this.#names = names;
    this.#log = log;
  }

  async read(what: string, { seq, storedAt }: Omit<Noted, "note">): Promise<Note> {
    const subject = this.#subject(seq);
    try {
      const found = await this.#jetStream.get(what, this.#names.notes, { last_by_subj: subject });
      const [of, free, releases, progress] = JSON.parse(textOf(found)) as Stored;
      return of === storedAt ? { free, releases, progress } : NOTHING_NOTED;
    } catch (error) {
      if (error instanceof JetStreamError && error.code === NO_MESSAGE) return NOTHING_NOTED;
      throw error;
    }
  }

  /** Resolves when all notes are stored. */
  async write(what: string, noted: readonly Noted[]): Promise<void> {
    if (noted.length === 0) return;
    let missing = noted.length;
    let refusal: string | undefined;
    const onAnswer = (message: NatsMessage) => {
      refusal ??= refusalIn(message);
      return --missing === 0;
    };
    await this.#calls.run(what, (reply) => {
      for (const { seq, storedAt, note } of noted) {
        const stored: Stored = [storedAt, note.free, note.releases, note.progress!];
        this.#connection.publish(this.#subject(seq), JSON.stringify(stored), { reply });
      }
    }, { onAnswer });
    if (refusal !== undefined) throw new JetStreamError(what, 0, refusal);
  }

  /** Deletes the notes about messages that are gone, in its own time. One that is left harms nobody. */
  forget(noted: readonly Noted[]): void {
    for (const { seq, note } of noted) {
      if (note === NOTHING_NOTED) continue;
      const purged = this.#jetStream.purge("clean up", this.#names.notes, this.#subject(seq));
      this.#calls.background(purged).catch((error) => {
        this.#log.debug("could not delete a note about a message that is gone", { error });
      });
    }
  }

  /** The time by the server's clock, at the earliest, in milliseconds since the Unix epoch. */
  async serverTime(what: string): Promise<number> {
    const subject = `${this.#names.noteSubjects}clock`;
    await this.#calls.ask(what, subject);
    const { time } = await this.#jetStream.get(what, this.#names.notes, { last_by_subj: subject });
    return Date.parse(time);
  }

  #subject(seq: number): string {
    return `${this.#names.noteSubjects}${seq}`;
  }
}

const decoder = new TextDecoder();

/** Why a server did not store a message. */
export function refusalIn({ headers, data }: NatsMessage): string | undefined {
  if (headers !== undefined && headers.code > 0) {
    return headers.description || `code ${headers.code}`;
  }
  const { error } = JSON.parse(decoder.decode(data)) as {
    readonly error?: { readonly description?: string };
  };
  return error && (error.description ?? "refused");
}
