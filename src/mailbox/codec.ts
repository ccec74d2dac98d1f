import { checkCount, show } from "../_checks.ts";
import { errorText } from "../errors.ts";
import type { TraceContext, TracedBody } from "../telemetry/trace_context.ts";
import { InvalidParameterError, SerializationError } from "./errors.ts";
import { unwrapJson, unwrapKept, wrapJson, wrapKept } from "./_traced_body.ts";

/** Turns bodies into what an engine stores, and back. Both directions throw when they cannot. */
export interface Codec<B> {
  /** Throws what cannot be stored back at whoever sends it. */
  encode(value: unknown): B;
  /** What throws here goes to the dead letters. */
  decode(stored: B): unknown;
  /** What is stored, as text for the dead letters. */
  text(stored: B): string;
  /** Throws for a body that is too large to send. A letter with a body that was sent may be larger. */
  checkSize?(stored: B): void;
  /**
   * Puts a trace with an encoded body. It gets every body that is sent, also without a trace, so that one
   * that looks wrapped can be wrapped. A codec without this and `unwrap` carries no traces.
   */
  wrap?(stored: B, trace: TraceContext | undefined): B;
  /** Takes apart what `wrap` has put together; undefined for a body that is stored as it is. */
  unwrap?(stored: B): TracedBody<B> | undefined;
}

/** The default of {@linkcode jsonCodec}: as much as the common queues take. */
export const DEFAULT_MAX_BODY_BYTES = 262_144;

/**
 * Stores bodies as JSON of up to `maxBytes` bytes. `engineMaxBytes` is what the engine itself can take: an
 * error of a body that is too large advises to raise the limit only below it.
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
      // A character takes three bytes at the most, so most bodies need not be measured.
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

/** Keeps bodies as they are, for engines within the process. */
export const identityCodec: Codec<unknown> = {
  encode: (value) => value,
  decode: (stored) => stored,
  text: (stored) => String(stored),
  wrap: wrapKept,
  unwrap: unwrapKept,
};
