/**
 * 23. Encrypted bodies. A codec encrypts with AES-GCM of WebCrypto before a body leaves the process, so that
 * the engine, its backups and its operators see only ciphertext. Ids, keys and headers stay readable.
 *
 *     node examples/23_encrypted.ts
 *
 * It ends by itself, and changes the key in the middle.
 */

import { InMemoryMailbox } from "../mod.ts";
import { encrypted } from "./_encrypted.ts";

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
  () => console.log("a text of another mailbox was read"),
  () => console.log("a text of another mailbox was refused"),
);
await letters.close();
