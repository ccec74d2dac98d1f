/**
 * 23. Encrypted bodies. A codec encrypts with AES-GCM of WebCrypto before a body leaves the process, so that
 * the engine, its backups and its operators see only ciphertext. Ids, keys and headers stay readable.
 *
 *     node examples/23_encrypted.ts
 *
 * It ends by itself, and changes the key in the middle.
 */

import { Buffer } from "node:buffer";
import { InMemoryMailbox } from "../mod.ts";
import type { BodyCodec } from "../src/engine.ts";

/** AES-GCM keys by their ids. In a real program they come from a secret store. */
type Keys = Readonly<Record<string, CryptoKey>>;

const IV_BYTES = 12;

/**
 * Encrypts with the key `current`, and decrypts with any of `keys`. A text is `<key id>.<IV and ciphertext>`.
 *
 * - The IV is random for each text. One key is safe for about four billion texts: change it long before.
 * - `context`, such as the name of the mailbox, is authenticated together with the key id: a text that was
 *   copied from another mailbox, or changed, cannot be decrypted, and its message is dead-lettered.
 */
function encrypted(keys: Keys, current: string, context: string): BodyCodec {
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

function newKey(): Promise<CryptoKey> {
  return crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);
}

const old = await newKey();
const encode = encrypted({ "2026": old }, "2026", "letters").encode;
console.log(`stored as ${String(await encode({ to: "ada" })).slice(0, 30)}…`);

// To change the key: 1. Give all processes both keys. 2. Make the new one current. 3. Remove the old one when
// no message and no dead letter is left that was sent with it.
const keys = { "2026": old, "2027": await newKey() };
let current = encrypted(keys, "2026", "letters");
const letters = new InMemoryMailbox<{ to: string }>("letters", {
  codec: { encode: (body) => current.encode(body), decode: (text) => current.decode(text) },
});
await letters.send({ to: "ada" });
current = encrypted(keys, "2027", "letters"); // in a real program: a deploy
await letters.send({ to: "grace" });
for (const message of await letters.receive({ maxMessages: 2 })) {
  console.log(`read a letter to ${message.body.to}`);
  await message.acknowledge();
}

// A text of another mailbox is refused, although its key is known.
const elsewhere = await encrypted(keys, "2027", "invoices").encode({ to: "mallory" });
await Promise.resolve(current.decode(elsewhere)).then(
  () => console.log("a foreign text was read"),
  () => console.log("a foreign text was refused"),
);
await letters.close();
