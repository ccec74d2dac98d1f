import { type Codec, jsonCodec } from "../../mailbox/codec.ts";

/**
 * Everything that some service of this kind refuses. Characters past the 16-bit ones are fine for most,
 * but not for all; noncharacters are for none.
 */
const UNWELCOME = /[^\t\n\r -\uD7FF\uE000-\uFFFD]/g;

/** JSON that says the same with welcome characters: what is unwelcome can stand within strings only. */
export function plainJson(json: string): string {
  return json.replace(
    UNWELCOME,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Stores bodies as JSON that SQS takes. */
export function sqsCodec(maxBytes: number, engineMaxBytes: number): Codec<string> {
  const json = jsonCodec(maxBytes, engineMaxBytes);
  return { ...json, encode: (value) => plainJson(json.encode(value)) };
}

const encoder = new TextEncoder();

/** How long a text is on the wire. */
export function bytesOf(text: string): number {
  return encoder.encode(text).byteLength;
}
