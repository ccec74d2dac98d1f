import type { Log } from "../../log.ts";
import type { Entry } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxFullError } from "../../mailbox/errors.ts";
import type { Calls } from "./_calls.ts";
import { payloadOf } from "./_delivery.ts";
import { JetStreamError, NO_RESPONDERS, STORE_FAILED } from "./_errors.ts";
import type { JetStream } from "./_jetstream.ts";
import type { NatsConnection, NatsMessage } from "./nats_connection.ts";
import { isPlain, type Names, tokenOf } from "./_names.ts";

/** What a letter needs more than the message had, and the line about it. */
const RESERVE_BYTES = 8_192;

/** Said of a message whose subject has one already, and of one too many. */
const THERE_ALREADY = "maximum messages per subject exceeded";
const FULL = "maximum messages exceeded";

/** A message on its way to a stream. */
interface Parcel {
  readonly subject: string;
  readonly payload: Uint8Array;
  /** Whoever sends it again sends the same message: it is not taken back. */
  readonly repeatable: boolean;
}

/** Where it is then. */
interface Stored {
  readonly seq: number;
  readonly subject: string;
}

interface PublishAnswer {
  readonly seq?: number;
  readonly error?: {
    readonly code: number;
    readonly err_code?: number;
    readonly description?: string;
  };
}

const decoder = new TextDecoder();

/** What an outbox works with. */
export interface OutboxOptions {
  readonly mailbox: string;
  readonly names: Names;
  readonly connection: NatsConnection;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly log: Log;
}

/**
 * Stores messages. JetStream stores one at a time; where one of many is refused, or not confirmed in
 * time, those that were stored are taken back, as far as nobody has received them meanwhile.
 */
export class Outbox {
  readonly #options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.#options = options;
  }

  /** Tells for each entry whether it was stored. */
  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const { subjects } = this.#options.names;
    const parcels: Parcel[] = [];
    for (const entry of entries) {
      const { id, dedup } = entry;
      const token = isPlain(id) && !dedup ? `g-${id}` : await tokenOf(id, dedup);
      const payload = payloadOf(entry);
      parcels.push({ subject: `${subjects}${token}`, payload, repeatable: dedup });
    }
    return await this.#deliver(`send ("${this.#options.mailbox}")`, parcels, RESERVE_BYTES);
  }

  /** Stores a letter once, however often it is sent for the same message. */
  async sendLetter(letter: Omit<Entry<string>, "dedup">, origin: string): Promise<void> {
    await this.#sendOnce("bury", letter, `l-${origin}`);
  }

  /** Stores a copy of a message once, however often it is sent while the copy is there. */
  async sendAgain(message: Omit<Entry<string>, "dedup">, origin: string): Promise<void> {
    await this.#sendOnce("send again", message, `s-${origin}`);
  }

  async #sendOnce(what: string, entry: Omit<Entry<string>, "dedup">, token: string): Promise<void> {
    const { mailbox, names } = this.#options;
    const parcel = {
      subject: `${names.subjects}${token}`,
      payload: payloadOf(entry),
      repeatable: true,
    };
    await this.#deliver(`${what} ("${mailbox}")`, [parcel], 0);
  }

  async #deliver(what: string, parcels: readonly Parcel[], reserve: number): Promise<boolean[]> {
    const { connection, calls, log, mailbox } = this.#options;
    this.#checkSize(parcels, reserve);
    const stored: Stored[] = [];
    const isStored = parcels.map(() => false);
    let refusal: JetStreamError | undefined;
    let missing = parcels.length;
    const read = (message: NatsMessage, part: string) => {
      const { seq, error } = answerOf(message, what);
      if (error !== undefined) refusal ??= error;
      if (seq === undefined) return;
      const { subject, repeatable } = parcels[Number(part)]!;
      isStored[Number(part)] = true;
      if (!repeatable) stored.push({ seq, subject });
    };
    try {
      await calls.run(what, (reply) => {
        for (const [i, { subject, payload }] of parcels.entries()) {
          connection.publish(subject, payload, { reply: `${reply}.${i}` });
        }
      }, {
        onAnswer: (message, part) => {
          read(message, part);
          return --missing === 0;
        },
        onLate: (message, part) => {
          const before = stored.length;
          read(message, part);
          const late = stored.slice(before);
          calls.background(this.#takeBack(late)).catch((error) => {
            log.warn(`a message came to "${mailbox}" late and could not be taken back`, { error });
          });
        },
      });
    } catch (error) {
      // Not waited for: the server does not answer.
      if (calls.connected) calls.background(this.#takeBack(stored)).catch(() => {});
      throw error;
    }
    if (refusal === undefined) return isStored;
    await this.#takeBack(stored);
    throw refusal.text === FULL ? await this.#fullError(parcels.length) : refusal;
  }

  #checkSize(parcels: readonly Parcel[], reserve: number): void {
    const { connection, mailbox } = this.#options;
    const most = connection.info?.max_payload;
    if (most === undefined) return;
    for (const { payload } of parcels) {
      if (payload.byteLength + reserve <= most) continue;
      throw new InvalidParameterError(
        `The body has ${payload.byteLength} bytes with what "${mailbox}" writes about it, and the ` +
          `server takes ${most - reserve}: store it elsewhere and send a reference, or raise ` +
          "max_payload of the server",
      );
    }
  }

  /** Those that are gone already were received; nobody takes them back. */
  async #takeBack(stored: readonly Stored[]): Promise<void> {
    const { jetStream, names } = this.#options;
    await Promise.all(stored.map(async (each) => {
      try {
        await jetStream.remove("take back", names.stream, each);
      } catch (error) {
        if (!(error instanceof JetStreamError && error.code !== NO_RESPONDERS)) throw error;
      }
    }));
  }

  async #fullError(more: number): Promise<MailboxFullError> {
    const { jetStream, names, mailbox } = this.#options;
    const { state, config } = await jetStream.stream(`count ("${mailbox}")`, names.stream);
    return fullError(mailbox, state.messages, config.max_msgs, more);
  }
}

/** The mailbox cannot take so many more. */
export function fullError(
  mailbox: string,
  count: number,
  maxSize: number,
  more: number,
): MailboxFullError {
  return new MailboxFullError(
    `Mailbox "${mailbox}" is full: it holds ${count} of ${maxSize} messages and cannot take ${more} ` +
      "more; receive some, or raise maxSize",
  );
}

/** What a server said to a message: where it is stored, unless it was there, or why it is not. */
function answerOf(
  { headers, data }: NatsMessage,
  what: string,
): { readonly seq?: number; readonly error?: JetStreamError } {
  if (headers !== undefined && headers.code > 0) {
    const text = headers.code === NO_RESPONDERS ? "no responders" : headers.description;
    return { error: new JetStreamError(what, headers.code, text) };
  }
  const { seq, error } = JSON.parse(decoder.decode(data)) as PublishAnswer;
  if (error === undefined) return seq === undefined ? {} : { seq };
  const { code, err_code = code, description = `error ${code}` } = error;
  if (err_code === STORE_FAILED && description === THERE_ALREADY) return {};
  return { error: new JetStreamError(what, err_code, description) };
}
