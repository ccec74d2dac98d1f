/**
 * The envelope: the fields of a message that the sender chooses, besides its id and body. They reach every
 * delivery and the dead letter, and a redrive sends them again.
 *
 * Engines store the envelope as one opaque value, `meta`. To add a field, add it to the three interfaces, check it in
 * `CHECKS`, and give `EngineMessage` a getter.
 *
 * @module
 */

import { type BackoffOptions, checkBackoff } from "../_backoff.ts";
import { checkCount, checkInterval, checkOneOf, show } from "../_checks.ts";
import { MailboxClosedError } from "./errors.ts";

/** Headers of a message. A W3C trace context travels in `traceparent` and `tracestate`. */
export type MessageHeaders = Readonly<Record<string, string>>;

/** The part of a mailbox that replies need. */
export interface ReplyMailbox<R> {
  /** The name that a message carries as its reply address. */
  readonly name: string;
  /** Stores a reply. */
  send(body: R): Promise<unknown>;
}

/** Throws for a mailbox that was closed. A reply mailbox need not tell whether it was. */
export function checkOpen(mailbox: Pick<ReplyMailbox<never>, "name">): void {
  if ((mailbox as { readonly closed?: boolean }).closed !== true) return;
  throw new MailboxClosedError(`Cannot send to mailbox "${mailbox.name}": it is closed`);
}

/** The reply mailbox, or its name for a receiver with a `resolver`. */
export type ReplyAddress<R> = ReplyMailbox<R> | string;

/** The highest priority of a message. */
export const MAX_PRIORITY = 9;

/** What happens to a message that expires before a worker receives it. */
export type OnExpired = "deadLetter" | "drop";

/** The options of `send` that travel with the message. */
export interface EnvelopeOptions<R = unknown> {
  /** Headers of the application. They are carried unchanged. @default {{}} */
  readonly headers?: MessageHeaders;
  /** The mailbox for replies. */
  readonly replyTo?: ReplyAddress<R>;
  /**
   * Messages with the same key are handled one at a time and in the order in which they were sent, across
   * all processes. A message that waits for its retry blocks its key; acknowledging, dead-lettering or
   * cancelling it unblocks the key. A message with a delay joins the order of its key when it is due.
   */
  readonly key?: string;
  /**
   * A whole number from 0 to 9. A message with a higher priority is received first; messages with the same
   * priority are received in the order in which they were sent. The order of a key comes before priority.
   *
   * @default {0}
   */
  readonly priority?: number;
  /**
   * How long the message may be delivered, in milliseconds from the send. A later receive dead-letters it
   * with the reason `expired`. @default {no limit}
   */
  readonly expiresInMs?: number;
  /** What happens to an expired message. @default {"deadLetter"} */
  readonly onExpired?: OnExpired;
  /**
   * Dead-letters this message after so many failed attempts. A loop with `deadLetter: false` ignores it.
   *
   * @default {that of the loop}
   */
  readonly maxDeliveries?: number;
  /** The pauses before retries of this message. @default {that of the loop} */
  readonly backoff?: BackoffOptions;
}

/** The checked fields. A field with its default value is absent. */
export interface Envelope {
  /** The headers of the application. */
  readonly headers: MessageHeaders;
  /** A mailbox object only in memory. Engines that store on disk or on a server store its name. */
  readonly replyTo?: ReplyAddress<never>;
  /** Orders the messages that have the same key. */
  readonly key?: string;
  /** From 1 to 9. */
  readonly priority?: number;
  /** How long after the send the message may be delivered. */
  readonly expiresInMs?: number;
  /** What happens to an expired message. */
  readonly onExpired?: OnExpired;
  /** How often the message may fail. */
  readonly maxDeliveries?: number;
  /** The pauses before retries. */
  readonly backoff?: BackoffOptions;
}

/** The fields that a delivery, a peeked message and a dead letter have. */
export interface MessageEnvelope {
  /** The headers as they were sent. */
  readonly headers: MessageHeaders;
  /** The name of the reply mailbox. */
  readonly replyTo?: string | undefined;
  /** The key as it was sent. */
  readonly key?: string | undefined;
  /** The priority as it was sent; undefined for 0. */
  readonly priority?: number | undefined;
  /** How long after the send the message may be delivered, in milliseconds. */
  readonly expiresInMs?: number | undefined;
  /** What happens to an expired message; undefined for `deadLetter`. */
  readonly onExpired?: OnExpired | undefined;
  /** How often this message may fail. */
  readonly maxDeliveries?: number | undefined;
  /** The pauses before retries of this message. */
  readonly backoff?: BackoffOptions | undefined;
}

/** How each field but the headers is checked. A check returns undefined for the default value. */
const CHECKS: {
  readonly [K in Exclude<keyof Envelope, "headers">]-?: (
    value: NonNullable<EnvelopeOptions<never>[K]>,
  ) => Envelope[K] | undefined;
} = {
  replyTo: checkReplyTo,
  key: checkKey,
  priority: (value) => checkCount("priority", value, 0, MAX_PRIORITY) || undefined,
  expiresInMs: (value) => checkInterval("expiresInMs", value),
  onExpired: (value) =>
    checkOneOf("onExpired", value, ["deadLetter", "drop"]) === "drop" ? "drop" : undefined,
  // JSON has no Infinity.
  maxDeliveries: (value) =>
    Math.min(checkCount("maxDeliveries", value, 1), Number.MAX_SAFE_INTEGER),
  backoff: checkPauses,
};

const FIELDS = ["headers", ...Object.keys(CHECKS)] as readonly (keyof Envelope)[];

const NO_HEADERS: MessageHeaders = Object.freeze({});
/** The envelope without fields. */
export const EMPTY_ENVELOPE: Envelope = Object.freeze({ headers: NO_HEADERS });

/** Checks the options of a send and returns the envelope. */
export function envelopeOf(options: EnvelopeOptions<never>): Envelope {
  let envelope: Envelope | undefined;
  for (const name of FIELDS) {
    const value = options[name];
    if (value === undefined) continue;
    const checked = name === "headers"
      ? checkHeaders(value as MessageHeaders)
      : CHECKS[name](value as never);
    if (checked !== undefined) envelope = { ...envelope ?? EMPTY_ENVELOPE, [name]: checked };
  }
  return envelope ?? EMPTY_ENVELOPE;
}

/** Picks the fields of an envelope from an object that has them: stored meta, or a dead letter. */
export function readEnvelope(from: object): Envelope {
  const record = from as Readonly<Record<string, unknown>>;
  const found = FIELDS.filter((name) => record[name] !== undefined && record[name] !== null);
  return { ...EMPTY_ENVELOPE, ...Object.fromEntries(found.map((name) => [name, record[name]])) };
}

/**
 * Checks stored meta, which another program may have written, and returns its fields. It has no `headers` where the
 * meta has none.
 *
 * @throws {TypeError | RangeError} when a field is invalid.
 */
export function checkStoredEnvelope(fields: object): Partial<Envelope> {
  const envelope = envelopeOf(readEnvelope(fields) as EnvelopeOptions<never>);
  if ("headers" in fields) return envelope;
  const { headers: _, ...rest } = envelope;
  return rest;
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
export function isStorable(text: unknown): text is string {
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

function checkKey(key: string): string {
  if (isStorable(key) && key !== "") return key;
  throw new TypeError(
    `Invalid key: expected a text that is not empty, without NUL and unpaired surrogates, got ${
      show(key)
    }`,
  );
}

function checkPauses(backoff: BackoffOptions): BackoffOptions {
  if (typeof backoff !== "object" || backoff === null) {
    throw new TypeError(`Invalid backoff: expected { minMs, maxMs }, got ${show(backoff)}`);
  }
  checkBackoff(backoff, { minMs: 0, maxMs: 0 });
  const { minMs, maxMs } = backoff;
  return { ...(minMs !== undefined && { minMs }), ...(maxMs !== undefined && { maxMs }) };
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
