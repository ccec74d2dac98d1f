/**
 * The envelope: the fields of a message that the sender chooses, besides its id and body. They reach every
 * delivery and the dead letter, and a redrive sends them again.
 *
 * Engines store the envelope as one opaque value, `meta`. To add a field, add it to the three interfaces and to
 * `FIELDS` below, check it in `envelopeOf`, and give `EngineMessage` a getter.
 *
 * @module
 */

import { show } from "../_checks.ts";

/** Headers of a message. A W3C trace context travels in `traceparent` and `tracestate`. */
export type MessageHeaders = Readonly<Record<string, string>>;

/** The part of a mailbox that replies need. */
export interface ReplyMailbox<R> {
  /** The name that a message carries as its reply address. */
  readonly name: string;
  /** Stores a reply and returns its id. */
  send(body: R): Promise<string>;
}

/** The reply mailbox, or its name for a receiver with a `resolver`. */
export type ReplyAddress<R> = ReplyMailbox<R> | string;

/** The options of `send` that travel with the message. */
export interface EnvelopeOptions<R = unknown> {
  /** Headers of the application. They are carried unchanged. @default {{}} */
  readonly headers?: MessageHeaders;
  /** The mailbox for replies. */
  readonly replyTo?: ReplyAddress<R>;
}

/** The checked fields. */
export interface Envelope {
  /** The headers of the application. */
  readonly headers: MessageHeaders;
  /** A mailbox object only in memory. Engines that store on disk or on a server store its name. */
  readonly replyTo?: ReplyAddress<never>;
}

/** The fields that a delivery, a peeked message and a dead letter have. */
export interface MessageEnvelope {
  /** The headers as they were sent. */
  readonly headers: MessageHeaders;
  /** The name of the reply mailbox. */
  readonly replyTo?: string | undefined;
}

/** The names of all fields. */
const FIELDS = Object.keys(
  { headers: true, replyTo: true } satisfies Record<keyof Envelope, true>,
) as readonly (keyof Envelope)[];

const NO_HEADERS: MessageHeaders = Object.freeze({});
/** The envelope without fields. */
export const EMPTY_ENVELOPE: Envelope = Object.freeze({ headers: NO_HEADERS });

/** Checks the options of a send and returns the envelope. */
export function envelopeOf(options: EnvelopeOptions<never>): Envelope {
  const { headers, replyTo } = options;
  if (headers === undefined && replyTo === undefined) return EMPTY_ENVELOPE;
  return {
    headers: headers === undefined ? NO_HEADERS : checkHeaders(headers),
    ...(replyTo === undefined ? {} : { replyTo: checkReplyTo(replyTo) }),
  };
}

/** Picks the fields of an envelope from an object that has them: stored meta, or a dead letter. */
export function readEnvelope(from: object): Envelope {
  const record = from as Readonly<Record<string, unknown>>;
  const found = FIELDS.filter((name) => record[name] !== undefined && record[name] !== null);
  return { ...EMPTY_ENVELOPE, ...Object.fromEntries(found.map((name) => [name, record[name]])) };
}

/** Returns the fields as plain data. */
export function plainEnvelope(envelope: Envelope): MessageEnvelope {
  const { replyTo, ...fields } = envelope;
  return replyTo === undefined ? fields : { ...fields, replyTo: replyName(replyTo) };
}

/** Returns the name of a reply address. */
export function replyName(replyTo: ReplyAddress<never>): string {
  return typeof replyTo === "object" ? replyTo.name : replyTo;
}

/** Returns the name of a mailbox if it can be told apart in logs, keys and file names. */
export function checkMailboxName(name: string): string {
  // Dead letters have the name of their mailbox and an ending of their own.
  if (typeof name === "string" && /^[\w.:@/-]{1,180}?(\.dead)*$/.test(name)) return name;
  throw new TypeError(
    `Invalid mailbox name: expected 1 to 180 letters, digits or any of _ . : @ / -, got ${
      show(name)
    }`,
  );
}

/** Returns the id of a message if every engine stores it unchanged. */
export function checkId(id: string): string {
  if (isStorable(id)) return id;
  throw new TypeError(
    `Invalid id: expected a text without NUL and unpaired surrogates, got ${show(id)}`,
  );
}

/** Returns true for a text that every engine stores: PostgreSQL stores no NUL, and UTF-8 no surrogates. */
function isStorable(text: unknown): text is string {
  return typeof text === "string" && !/\0|\p{Cs}/u.test(text);
}

/** Returns true when no field is set. */
export function isEmptyEnvelope(envelope: Envelope): boolean {
  if (envelope === EMPTY_ENVELOPE) return true;
  const { headers, ...rest } = envelope;
  return Object.keys(headers).length === 0 && Object.keys(rest).length === 0;
}

function checkHeaders(headers: MessageHeaders): MessageHeaders {
  if (typeof headers !== "object" || headers === null || Array.isArray(headers)) {
    throw new TypeError(
      `Invalid headers: expected an object of texts, got ${show(headers)}`,
    );
  }
  for (const [name, value] of Object.entries(headers)) {
    if (name !== "" && isStorable(name) && isStorable(value)) continue;
    throw new TypeError(
      `Invalid header ${
        show(name)
      }: expected a text without NUL and unpaired surrogates, under a ` +
        `name that is not empty, got ${show(value)}`,
    );
  }
  return { ...headers };
}

function checkReplyTo(replyTo: ReplyAddress<never>): ReplyAddress<never> {
  const name: unknown = typeof replyTo === "object" ? replyTo?.name : replyTo;
  if (isStorable(name)) return replyTo;
  throw new TypeError(
    `Invalid replyTo: expected a mailbox or its name, without NUL and unpaired surrogates, got ${
      show(replyTo)
    }`,
  );
}
