import { checkCount, show } from "../_checks.ts";
import { errorText } from "../errors.ts";
import { traceIn } from "../telemetry/trace_context.ts";
import {
  checkStoredEnvelope,
  EMPTY_ENVELOPE,
  type Envelope,
  isEmptyEnvelope,
  isStorable,
  type MessageHeaders,
  plainEnvelope,
  readEnvelope,
} from "./envelope.ts";
import type { Maybe } from "./engine.ts";
import { InvalidParameterError, SerializationError } from "./errors.ts";

/**
 * Encodes bodies and checkpoints as text, in place of JSON. Both functions may return a promise.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox } from "@lastcall/lastcall";
 *
 * const reversed = (text: string) => [...text].reverse().join("");
 * await using orders = new InMemoryMailbox<{ item: string }>("orders", {
 *   codec: {
 *     encode: (body) => reversed(JSON.stringify(body)),
 *     decode: (text) => JSON.parse(reversed(text)),
 *   },
 * });
 * await orders.send({ item: "tea" });
 * console.assert((await orders.receive())[0]?.body.item === "tea");
 * ```
 */
export interface BodyCodec {
  /** Encodes a body or a checkpoint. An error rejects the call, and nothing is stored. */
  encode(body: unknown): string | Promise<string>;
  /** Decodes what `encode` returned. An error dead-letters the message as unreadable. */
  decode(text: string): unknown;
}

/** A body that version 0.1 stored together with a trace. */
export interface TracedBody<B> {
  /** The encoded body. */
  readonly body: B;
  /** The trace, as headers. */
  readonly headers: MessageHeaders;
}

/** Encodes bodies for an engine, and decodes them. Both throw or reject when they cannot. */
export interface Codec<B> {
  /** Encodes a body. An error rejects the `send`. */
  encode(value: unknown): Maybe<B>;
  /** Decodes a body, or returns a promise of it. An error dead-letters the message. */
  decode(stored: B): unknown;
  /** Returns the stored body as text, for a dead letter that cannot be decoded. */
  text(stored: B): string;
  /** Throws when body and meta together are too large to send. Dead letters may be larger. */
  checkSize?(body: B, meta?: B): void;
  /** Encodes the envelope of a message. */
  encodeMeta(envelope: Envelope): B;
  /** Decodes what `encodeMeta` returned. */
  decodeMeta(meta: B): object;
  /** Separates a body and its trace, as version 0.1 stored them; undefined for any other body. */
  readTraced?(body: B): TracedBody<B> | undefined;
}

/** A codec that encodes to text without promises. */
export interface SyncCodec extends Codec<string> {
  /** Encodes a body. An error rejects the `send`. */
  encode(value: unknown): string;
}

/** Encodes an envelope. Returns undefined for one without fields, so that most messages store none. */
export function encodeEnvelope<B>(codec: Codec<B>, envelope: Envelope, body: B): B | undefined {
  // A body that looks like one of version 0.1 with a trace must not be read as such.
  if (isEmptyEnvelope(envelope) && codec.readTraced?.(body) === undefined) return undefined;
  return codec.encodeMeta(envelope);
}

/** Returns the envelope and the encoded body of a stored message. */
export function openEnvelope<B>(
  codec: Codec<B>,
  { body, meta }: { readonly body: B; readonly meta?: B | undefined },
): { readonly envelope: Envelope; readonly body: B } {
  const fields = meta === undefined ? undefined : codec.decodeMeta(meta);
  const envelope = fields === undefined ? EMPTY_ENVELOPE : readEnvelope(fields);
  // Version 0.1 stored no headers, but a trace with the body. Its reply address was migrated to `meta`.
  if (fields !== undefined && "headers" in fields) return { envelope, body };
  const traced = codec.readTraced?.(body);
  if (traced === undefined) return { envelope, body };
  return { envelope: { ...envelope, headers: traced.headers }, body: traced.body };
}

/** The default limit of {@linkcode jsonCodec}, that of SQS. */
export const DEFAULT_MAX_BODY_BYTES = 262_144;

/**
 * Encodes bodies as JSON of up to `maxBytes` bytes. `engineMaxBytes` is the limit of the engine: the error
 * for a larger body advises to raise `maxBodyBytes` only below it.
 */
export function jsonCodec(
  maxBytes: number = DEFAULT_MAX_BODY_BYTES,
  engineMaxBytes: number = Infinity,
): SyncCodec {
  checkCount("maxBodyBytes", maxBytes, 1);
  return {
    encode: stringify,
    decode: (stored) => parseJson("body", stored),
    text: (stored) => stored,
    encodeMeta: (envelope) => JSON.stringify(plainEnvelope(envelope)),
    decodeMeta: (meta) => storedEnvelope(parseJson("meta", meta)),
    readTraced,
    checkSize(body, meta = "") {
      // A UTF-16 unit takes at most three bytes, so most bodies need no measuring.
      if ((body.length + meta.length) * 3 <= maxBytes) return;
      const bytes = new TextEncoder().encode(body + meta).byteLength;
      if (bytes <= maxBytes) return;
      const raise = bytes > engineMaxBytes
        ? ""
        : ", or raise maxBodyBytes, an option of the mailbox and a parameter of its URL " +
          `(?maxBodyBytes=${bytes})`;
      const what = meta === "" ? "The body has" : "The body and its headers have";
      throw new InvalidParameterError(
        `${what} ${bytes} bytes and the limit is ${maxBytes}: store it elsewhere and send ` +
          `a reference${raise}`,
      );
    },
  };
}

function parseJson(what: "body" | "meta", stored: string): unknown {
  try {
    return JSON.parse(stored);
  } catch (error) {
    throw new SerializationError(`The stored ${what} is not JSON: ${errorText(error)}`, {
      cause: error,
    });
  }
}

function storedEnvelope(value: unknown): object {
  try {
    return checkStoredEnvelope(Object(value));
  } catch (error) {
    throw new SerializationError(`The stored meta has an invalid field: ${errorText(error)}`, {
      cause: error,
    });
  }
}

function stringify(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new SerializationError(`The body cannot be written as JSON: ${errorText(error)}`, {
      cause: error,
    });
  }
  if (text === undefined) {
    throw new SerializationError(`The body cannot be written as JSON: got ${show(value)}`);
  }
  return text;
}

/** Replaces the encoding of bodies and checkpoints by that of the user. Envelopes stay as they are. */
export function withBodyCodec<B>(codec: Codec<B>, bodies: BodyCodec): Codec<B> {
  for (const name of ["encode", "decode"] as const) {
    if (typeof bodies?.[name] === "function") continue;
    throw new TypeError(
      `Invalid codec: expected \`${name}\` to be a function, got ${show(bodies?.[name])}`,
    );
  }
  const { encodeMeta, decodeMeta, checkSize } = codec;
  return {
    // The engines of users' codecs store text; an engine in memory stores any value.
    encode: (body) => checkedText(bodies.encode(body)) as Maybe<B>,
    decode: (stored) => bodies.decode(stored as string),
    text: (stored) => String(stored),
    encodeMeta,
    decodeMeta,
    ...(checkSize && { checkSize }),
  };
}

function checkedText(encoded: string | Promise<string>): Maybe<string> {
  if (encoded instanceof Promise) return encoded.then(checkedText);
  if (isStorable(encoded)) return encoded;
  const got = typeof encoded === "string" ? "a text with such characters" : show(encoded);
  throw new SerializationError(
    `The codec must encode a body as a text without NUL and unpaired surrogates, got ${got}`,
  );
}

/** Keeps bodies unchanged, for engines in memory. */
export const identityCodec: Codec<unknown> = {
  encode: (value) => value,
  decode: (stored) => stored,
  text: (stored) => String(stored),
  encodeMeta: (envelope) => envelope,
  decodeMeta: (meta) => Object(meta),
};

/** The beginning of a body that version 0.1 stored together with a trace. */
const TRACED_HEAD = '{"lastcall:trace":';
/** Ends the trace; inside the trace the quote would be escaped. */
const TRACED_BODY = '},"body":';

/** Returns undefined for a body that only looks like one with a trace. */
function readTraced(text: string): TracedBody<string> | undefined {
  if (!text.startsWith(TRACED_HEAD) || !text.endsWith("}")) return undefined;
  const end = text.indexOf(TRACED_BODY, TRACED_HEAD.length);
  if (end < 0) return undefined;
  const body = text.slice(end + TRACED_BODY.length, -1);
  try {
    const found = JSON.parse(`${text.slice(TRACED_HEAD.length, end)}}`);
    const headers = Object.keys(found).length === 0 ? {} : traceIn(found);
    return headers === undefined ? undefined : { body, headers: { ...headers } };
  } catch {
    return undefined; // not written by version 0.1
  }
}
