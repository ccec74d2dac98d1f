import type { Log } from "../../log.ts";
import type { Entry } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxFullError } from "../../mailbox/errors.ts";
import type { Calls } from "./_calls.ts";
import { encodePayload } from "./_delivery.ts";
import { JetStreamError, NO_RESPONDERS, STORE_FAILED } from "./_errors.ts";
import type { JetStream } from "./_jetstream.ts";
import type { NatsConnection, NatsMessage } from "./nats_connection.ts";
import { isPlain, type Names, tokenOf } from "./_names.ts";

/** The bytes that a dead letter and the metadata line may add to a message. */
const DEAD_LETTER_BYTES = 8_192;

/** The server's texts for a subject that has a message already, and for a full stream. */
const DUPLICATE = "maximum messages per subject exceeded";
const FULL = "maximum messages exceeded";

/** A message to publish. */
interface OutgoingMessage {
  readonly subject: string;
  readonly payload: Uint8Array;
  /** True when sending it again stores the same message. Then a failed send is not undone. */
  readonly repeatable: boolean;
}

/** The position of a stored message. */
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

export interface SenderOptions {
  readonly mailbox: string;
  readonly names: Names;
  readonly connection: NatsConnection;
  readonly calls: Calls;
  readonly jetStream: JetStream;
  readonly log: Log;
}

/**
 * Stores messages. JetStream stores them one by one. When the server refuses or does not confirm one of
 * them, the sender removes the others again, unless they were received in the meantime.
 */
export class Sender {
  readonly #options: SenderOptions;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Returns for each entry whether it was stored. */
  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const { subjects } = this.#options.names;
    const outgoing: OutgoingMessage[] = [];
    for (const entry of entries) {
      const { id, dedup } = entry;
      const token = isPlain(id) && !dedup ? `g-${id}` : await tokenOf(id, dedup);
      const payload = encodePayload(entry);
      outgoing.push({ subject: `${subjects}${token}`, payload, repeatable: dedup });
    }
    return await this.#publish(`send ("${this.#options.mailbox}")`, outgoing, DEAD_LETTER_BYTES);
  }

  /** Stores a dead letter once, however often it is sent for the same message. */
  async sendDeadLetter(deadLetter: Omit<Entry<string>, "dedup">, origin: string): Promise<void> {
    await this.#sendOnce("bury", deadLetter, `l-${origin}`);
  }

  /** Stores a copy of a message once, however often it is sent while the copy is stored. */
  async resend(message: Omit<Entry<string>, "dedup">, origin: string): Promise<void> {
    await this.#sendOnce("resend", message, `s-${origin}`);
  }

  async #sendOnce(what: string, entry: Omit<Entry<string>, "dedup">, token: string): Promise<void> {
    const { mailbox, names } = this.#options;
    const outgoing = {
      subject: `${names.subjects}${token}`,
      payload: encodePayload(entry),
      repeatable: true,
    };
    await this.#publish(`${what} ("${mailbox}")`, [outgoing], 0);
  }

  async #publish(
    what: string,
    outgoing: readonly OutgoingMessage[],
    reserve: number,
  ): Promise<boolean[]> {
    const { connection, calls, log, mailbox } = this.#options;
    this.#checkSize(outgoing, reserve);
    const stored: Stored[] = [];
    const isStored = outgoing.map(() => false);
    let failure: JetStreamError | undefined;
    let missing = outgoing.length;
    const read = (message: NatsMessage, part: string) => {
      const { seq, error } = parseAnswer(message, what);
      if (error !== undefined) failure ??= error;
      if (seq === undefined) return;
      const { subject, repeatable } = outgoing[Number(part)]!;
      isStored[Number(part)] = true;
      if (!repeatable) stored.push({ seq, subject });
    };
    try {
      await calls.run(what, (reply) => {
        for (const [i, { subject, payload }] of outgoing.entries()) {
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
          calls.background(this.#undo(late)).catch((error) => {
            log.warn(
              `"${mailbox}" stored a message late, after its send had failed, and could not remove it`,
              { error },
            );
          });
        },
      });
    } catch (error) {
      // In the background, because the server does not answer.
      if (calls.connected) calls.background(this.#undo(stored)).catch(() => {});
      throw error;
    }
    if (failure === undefined) return isStored;
    await this.#undo(stored);
    throw failure.text === FULL ? await this.#fullError(outgoing.length) : failure;
  }

  #checkSize(outgoing: readonly OutgoingMessage[], reserve: number): void {
    const { connection, mailbox } = this.#options;
    const most = connection.info?.max_payload;
    if (most === undefined) return;
    for (const { payload } of outgoing) {
      if (payload.byteLength + reserve <= most) continue;
      throw new InvalidParameterError(
        `Cannot send to "${mailbox}": the body and its metadata have ${payload.byteLength} bytes and the ` +
          `server takes ${
            most - reserve
          }; store the body elsewhere and send a reference, or raise ` +
          "max_payload of the server",
      );
    }
  }

  /** Removes stored messages. A message that is missing was received. */
  async #undo(stored: readonly Stored[]): Promise<void> {
    const { jetStream, names } = this.#options;
    await Promise.all(stored.map(async (each) => {
      try {
        await jetStream.remove("undo a send", names.stream, each);
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

/** Returns the error for a mailbox without room for `more` messages. */
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

/** Parses the answer to one message: its position, nothing for a duplicate, or an error. */
function parseAnswer(
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
  if (err_code === STORE_FAILED && description === DUPLICATE) return {};
  return { error: new JetStreamError(what, err_code, description) };
}
