import type { Entry } from "../../mailbox/engine.ts";
import { fullError, InvalidParameterError } from "../../mailbox/errors.ts";
import type { OutgoingMessage } from "./_calls.ts";
import { encodePayload, type Payload } from "./_delivery.ts";
import { JetStreamError, NO_RESPONDERS, STORE_FAILED } from "./_errors.ts";
import { readAnswer } from "./_jetstream.ts";
import { type Queue, tokenOf } from "./_queue.ts";
import type { NatsMessage } from "./nats_connection.ts";

/** The bytes that a dead letter and the metadata line may add to a message. */
const DEAD_LETTER_BYTES = 8_192;

/** The server's texts for a subject that has a message already, and for a full stream. */
const DUPLICATE = "maximum messages per subject exceeded";
const FULL = "maximum messages exceeded";

const encoder = new TextEncoder();

/** A message to publish. */
interface Outgoing extends OutgoingMessage {
  readonly payload: Uint8Array;
  /** How much more than this payload the dead letter of the message may take. */
  readonly reserveBytes: number;
  /** True when sending it again stores the same message. Then a failed send is not undone. */
  readonly repeatable: boolean;
}

/** The position of a stored message. */
interface Stored {
  readonly seq: number;
  readonly subject: string;
}

/**
 * Stores messages. JetStream stores them one by one. When the server refuses or does not confirm one of
 * them, the sender removes the others again, unless they were received in the meantime.
 */
export class Sender {
  readonly #queue: Queue;

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /** Returns for each entry whether it was stored. */
  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const { subjects } = this.#queue.names;
    const outgoing: Outgoing[] = [];
    for (const entry of entries) {
      const { id, dedup, meta = "" } = entry;
      const token = tokenOf(id, dedup);
      outgoing.push({
        subject: `${subjects}${typeof token === "string" ? token : await token}`,
        payload: encodePayload(entry),
        reserveBytes: DEAD_LETTER_BYTES + encoder.encode(meta).byteLength, // a dead letter has it twice
        repeatable: dedup,
      });
    }
    return await this.#store(this.#queue.what("send"), outgoing);
  }

  /**
   * Stores a message once, however often it is sent while it is stored. `token` names it: `l-…` for the
   * dead letter of a message, `s-…` for the copy of an orphaned one.
   */
  async sendOnce(verb: string, message: Payload, token: string): Promise<void> {
    const subject = `${this.#queue.names.subjects}${token}`;
    const payload = encodePayload(message);
    const outgoing = { subject, payload, reserveBytes: 0, repeatable: true };
    await this.#store(this.#queue.what(verb), [outgoing]);
  }

  async #store(what: string, outgoing: readonly Outgoing[]): Promise<boolean[]> {
    const { mailbox, calls, log } = this.#queue;
    this.#checkSize(outgoing);
    const stored: Stored[] = [];
    const isStored = outgoing.map(() => false);
    let failure: JetStreamError | undefined;
    const read = (answer: NatsMessage, index: number) => {
      try {
        const seq = readSequence(what, answer);
        if (seq === undefined) return;
        const { subject, repeatable } = outgoing[index]!;
        isStored[index] = true;
        if (!repeatable) stored.push({ seq, subject });
      } catch (error) {
        failure ??= error as JetStreamError;
      }
    };
    try {
      await calls.store(what, outgoing, read, (answer, index) => {
        const before = stored.length;
        read(answer, index);
        calls.track(this.#undo(stored.slice(before))).catch((error) => {
          log.warn("cannot remove a message that NATS stored after its send had failed", {
            mailbox,
            error,
          });
        });
      });
    } catch (error) {
      // In the background, because the server does not answer.
      if (calls.connected) calls.track(this.#undo(stored)).catch(() => {});
      throw error;
    }
    if (failure === undefined) return isStored;
    await this.#undo(stored);
    if (failure.text !== FULL) throw failure;
    const { jetStream, names } = this.#queue;
    const { state, config } = await jetStream.stream(this.#queue.what("count"), names.stream);
    throw fullError(mailbox, state.messages, config.max_msgs, outgoing.length);
  }

  #checkSize(outgoing: readonly Outgoing[]): void {
    const { client, mailbox } = this.#queue;
    const most = client.info?.max_payload ?? Infinity;
    for (const { payload, reserveBytes } of outgoing) {
      if (payload.byteLength + reserveBytes <= most) continue;
      throw new InvalidParameterError(
        `Cannot send to "${mailbox}": the body and its metadata have ${payload.byteLength} bytes and the ` +
          `server takes ${
            most - reserveBytes
          }; store the body elsewhere and send a reference, or raise ` +
          "max_payload of the server",
      );
    }
  }

  /** Removes stored messages. A message that is missing was received. */
  async #undo(stored: readonly Stored[]): Promise<void> {
    const { jetStream, names } = this.#queue;
    await Promise.all(stored.map(async (each) => {
      try {
        await jetStream.remove("undo a send", names.stream, each);
      } catch (error) {
        if (!(error instanceof JetStreamError) || error.code === NO_RESPONDERS) throw error;
      }
    }));
  }
}

/** Returns the sequence number of a stored message; undefined for a duplicate. */
function readSequence(what: string, answer: NatsMessage): number | undefined {
  try {
    return readAnswer<{ readonly seq?: number }>(what, answer).seq;
  } catch (error) {
    const { code, text } = error as JetStreamError;
    if (code === STORE_FAILED && text === DUPLICATE) return undefined;
    throw error;
  }
}
