import { type Calls, noResponders } from "./_calls.ts";
import { JetStreamError, NO_MESSAGE, NO_RESPONDERS } from "./_errors.ts";
import { type JetStream, textOf } from "./_jetstream.ts";
import type { Log } from "../../log.ts";
import type { NatsConnection, NatsMessage } from "./nats_connection.ts";
import type { Names } from "./_names.ts";
import { FIRST_CONSUMER } from "./_set_up.ts";
import type { Site } from "./_site.ts";

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
  readonly consumer: string;
  readonly seq: number;
  readonly storedAt: string;
  readonly note: Note;
}

type Stored = readonly [storedAt: string, free: number, releases: number, progress?: string];

/** What notes need. */
export interface NotesOptions {
  readonly connection: NatsConnection;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly site: Site;
  readonly names: Names;
  readonly log: Log;
}

/**
 * Notes about messages, in a stream beside theirs, one for each: attempts that were given back, and
 * progress. They are read only when a message is delivered again, and there are none for those that
 * are done the first time.
 */
export class Notes {
  readonly #connection: NatsConnection;
  readonly #calls: Calls;
  readonly #jetStream: JetStream;
  readonly #site: Site;
  readonly #names: Names;
  readonly #log: Log;

  constructor({ connection, calls, jetStream, site, names, log }: NotesOptions) {
    this.#connection = connection;
    this.#calls = calls;
    this.#jetStream = jetStream;
    this.#site = site;
    this.#names = names;
    this.#log = log;
  }

  async read(what: string, noted: Omit<Noted, "note">): Promise<Note> {
    const { storedAt } = noted;
    const which = { last_by_subj: this.#subject(noted) };
    try {
      const found = await this.#site.use(() => {
        return this.#jetStream.get(what, this.#names.notes, which);
      });
      const [of, free, releases, progress] = JSON.parse(textOf(found)) as Stored;
      return of === storedAt ? { free, releases, progress } : NOTHING_NOTED;
    } catch (error) {
      if (error instanceof JetStreamError && error.code === NO_MESSAGE) return NOTHING_NOTED;
      throw error;
    }
  }

  /** Resolves when all notes are stored. */
  async write(what: string, noted: readonly Noted[]): Promise<void> {
    if (noted.length > 0) await this.#site.use(() => this.#write(what, noted));
  }

  async #write(what: string, noted: readonly Noted[]): Promise<void> {
    let missing = noted.length;
    let refusal: JetStreamError | undefined;
    const onAnswer = (message: NatsMessage) => {
      refusal ??= refusalIn(what, message);
      return --missing === 0;
    };
    await this.#calls.run(what, (reply) => {
      for (const each of noted) {
        const { storedAt, note } = each;
        const stored: Stored = [storedAt, note.free, note.releases, note.progress!];
        this.#connection.publish(this.#subject(each), JSON.stringify(stored), { reply });
      }
    }, { onAnswer });
    if (refusal !== undefined) throw refusal;
  }

  /** Deletes the notes about messages that are gone, in its own time. One that is left harms nobody. */
  forget(noted: readonly Noted[]): void {
    for (const each of noted) {
      if (each.note === NOTHING_NOTED) continue;
      const purged = this.#jetStream.purge("clean up", this.#names.notes, this.#subject(each));
      this.#calls.background(purged).catch((error) => {
        this.#log.debug("could not delete a note about a message that is gone", { error });
      });
    }
  }

  /** The time by the server's clock, at the earliest, in milliseconds since the Unix epoch. */
  async serverTime(what: string): Promise<number> {
    const subject = `${this.#names.noteSubjects}clock`;
    return await this.#site.use(async () => {
      await this.#calls.ask(what, subject);
      const which = { last_by_subj: subject };
      const { time } = await this.#jetStream.get(what, this.#names.notes, which);
      return Date.parse(time);
    });
  }

  /** A number comes again when a stream is deleted and made again; a number and a time do not. */
  #subject({ consumer, seq, storedAt }: Omit<Noted, "note">): string {
    const key = consumer === FIRST_CONSUMER ? `${seq}` : `${seq}-${storedAt}`;
    return `${this.#names.noteSubjects}${key}`;
  }
}

const decoder = new TextDecoder();

/** Why a server did not store a note. */
function refusalIn(what: string, { headers, data }: NatsMessage): JetStreamError | undefined {
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
