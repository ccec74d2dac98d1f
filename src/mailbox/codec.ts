import { checkCount, show } from "../_checks.ts";
import { errorText } from "../errors.ts";
import {
  isTraceContext,
  plainTrace,
  type TraceContext,
  type TracedBody,
} from "../telemetry/trace_context.ts";
import { InvalidParameterError, SerializationError } from "./errors.ts";

/** Encodes bodies for an engine, and decodes them. Both throw when they cannot. */
export interface Codec<B> {
  /** Encodes a body. An error rejects the `send`. */
  encode(value: unknown): B;
  /** Decodes a body. An error dead-letters the message. */
  decode(stored: B): unknown;
  /** Returns the stored body as text, for a dead letter that cannot be decoded. */
  text(stored: B): string;
  /** Throws when a body is too large to send. Dead letters may be larger. */
  checkSize?(stored: B): void;
  /**
   * Adds a trace to an encoded body. It is called for every body, also without a trace, so that a body that
   * looks wrapped can be wrapped. A codec without `wrap` and `unwrap` carries no traces.
   */
  wrap?(stored: B, trace: TraceContext | undefined): B;
  /** Separates body and trace; undefined for a body that was not wrapped. */
  unwrap?(stored: B): TracedBody<B> | undefined;
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
): Codec<string> {
  checkCount("maxBodyBytes", maxBytes, 1);
  return {
    encode: stringify,
    decode(stored) {
      try {
        return JSON.parse(stored);
      } catch (error) {
        throw new SerializationError(`The stored body is not JSON: ${errorText(error)}`, {
          cause: error,
        });
      }
    },
    text: (stored) => stored,
    wrap: wrapJson,
    unwrap: unwrapJson,
    checkSize(stored) {
      // A UTF-16 unit takes at most three bytes, so most bodies need no measuring.
      if (stored.length * 3 <= maxBytes) return;
      const bytes = new TextEncoder().encode(stored).byteLength;
      if (bytes <= maxBytes) return;
      const raise = bytes > engineMaxBytes
        ? ""
        : ", or raise maxBodyBytes, an option of the mailbox and a parameter of its URL " +
          `(?maxBodyBytes=${bytes})`;
      throw new InvalidParameterError(
        `The body has ${bytes} bytes and the limit is ${maxBytes}: store it elsewhere and send ` +
          `a reference${raise}`,
      );
    },
  };
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

/** Keeps bodies unchanged, for engines in memory. */
export const identityCodec: Codec<unknown> = {
  encode: (value) => value,
  decode: (stored) => stored,
  text: (stored) => String(stored),
  wrap: wrapInMemory,
  unwrap: unwrapInMemory,
};

/** The beginning of a stored body with a trace. */
const HEAD = '{"lastcall:trace":';
/** Ends the trace; inside the trace the quote would be escaped. */
const BODY = '},"body":';

/** Adds the trace; the result is JSON. A body that begins with `HEAD` is always wrapped. */
export function wrapJson(json: string, trace: TraceContext | undefined): string {
  if (trace === undefined && !json.startsWith(HEAD)) return json;
  const written = trace === undefined ? "{}" : JSON.stringify(plainTrace(trace));
  return `${HEAD}${written.slice(0, -1)}${BODY}${json}}`;
}

/** Returns undefined for a body that only looks wrapped: a program without traces stored it. */
export function unwrapJson(text: string): TracedBody<string> | undefined {
  if (!text.startsWith(HEAD) || !text.endsWith("}")) return undefined;
  const end = text.indexOf(BODY, HEAD.length);
  if (end < 0) return undefined;
  const trace = parse(`${text.slice(HEAD.length, end)}}`);
  const body = text.slice(end + BODY.length, -1);
  if (isTraceContext(trace)) return { body, trace: plainTrace(trace) };
  return isEmpty(trace) ? { body } : undefined;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined; // no trace of ours
  }
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** A body in memory with its trace. The class is private, so no body can look like it. */
class BodyWithTrace implements TracedBody<unknown> {
  readonly body: unknown;
  readonly trace: TraceContext;

  constructor(body: unknown, trace: TraceContext) {
    this.body = body;
    this.trace = trace;
  }
}

/** Adds the trace to a body in memory. */
function wrapInMemory(body: unknown, trace: TraceContext | undefined): unknown {
  return trace === undefined ? body : new BodyWithTrace(body, plainTrace(trace));
}

/** Separates a body in memory and its trace. */
function unwrapInMemory(stored: unknown): TracedBody<unknown> | undefined {
  return stored instanceof BodyWithTrace ? stored : undefined;
}
