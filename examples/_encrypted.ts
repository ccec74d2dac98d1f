/** The codec of example 23: it encrypts bodies with AES-GCM, under keys that can be changed. */

import { Buffer } from "node:buffer";
import type { BodyCodec } from "../src/engine.ts";

/** AES-GCM keys by their ids. In a real program they come from a secret store. */
export type Keys = Readonly<Record<string, CryptoKey>>;

const IV_BYTES = 12;

/**
 * Encrypts with the key `current`, and decrypts with any of `keys`. A text is `<key id>.<IV and ciphertext>`.
 *
 * - The IV is random for each text. One key is safe for about four billion texts: change it long before.
 * - `context`, such as the name of the mailbox, is authenticated together with the key id: a text that was
 *   copied from another mailbox, or changed, cannot be decrypted, and its message is dead-lettered.
 */
export function encrypted(keys: Keys, current: string, context: string): BodyCodec {
  const keyOf = (id: string) => {
    const key = Object.hasOwn(keys, id) ? keys[id] : undefined;
    if (key === undefined) throw new Error(`There is no key "${id}": was it removed too early?`);
    return key;
  };
  const settings = (id: string, iv: Uint8Array<ArrayBuffer>): AesGcmParams => {
    return { name: "AES-GCM", iv, additionalData: new TextEncoder().encode(`${id}.${context}`) };
  };
  keyOf(current); // a missing key is an error now, not at the first send
  return {
    async encode(body) {
      const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
      const plain = new TextEncoder().encode(JSON.stringify(body));
      const cipher = await crypto.subtle.encrypt(settings(current, iv), keyOf(current), plain);
      return `${current}.${Buffer.concat([iv, new Uint8Array(cipher)]).toString("base64url")}`;
    },
    async decode(text) {
      const dot = text.lastIndexOf("."); // the encoded part has none
      const id = text.slice(0, Math.max(0, dot));
      const bytes = new Uint8Array(Buffer.from(text.slice(dot + 1), "base64url"));
      const [iv, cipher] = [bytes.slice(0, IV_BYTES), bytes.slice(IV_BYTES)];
      const plain = await crypto.subtle.decrypt(settings(id, iv), keyOf(id), cipher);
      return JSON.parse(new TextDecoder().decode(plain));
    },
  };
}
