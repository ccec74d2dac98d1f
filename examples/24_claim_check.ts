/**
 * 24. Large bodies. A codec stores bodies above a limit elsewhere, here in a folder, and the message carries
 * a reference (a claim check). Senders and handlers do not notice.
 *
 *     node examples/24_claim_check.ts
 *
 * It ends by itself.
 *
 * When is a stored body deleted? There are two rules, and both are needed:
 *
 * 1. After the acknowledgement, never before it. A process that dies in between leaves a body without a
 *    message, which costs space. The other order leaves a message without a body, which costs the work.
 * 2. By age. Some bodies are never acknowledged: a send was a duplicate or failed after the body was stored,
 *    the message was cancelled or purged, or a dead letter got a copy of the body. So messages expire
 *    (`expiresInMs`) before stored bodies do (`sweep`, or a lifecycle rule of the object store): then no
 *    message that can be delivered has lost its body. A dead letter has its own copy, as old as itself:
 *    redrive it within that age.
 */

import { mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InMemoryMailbox, LoopGroup, MailboxLoop } from "../mod.ts";
import type { BodyCodec } from "../src/engine.ts";

const DAY_MS = 86_400_000;
const MESSAGES_EXPIRE_MS = 7 * DAY_MS;
const BODIES_EXPIRE_MS = 8 * DAY_MS;

/** Stores texts in a folder. For S3 or R2, replace the bodies of its functions. */
class ClaimCheck implements BodyCodec {
  readonly #folder: string;
  readonly #maxLength: number;
  /** The names of the stored texts of decoded bodies. */
  readonly #names = new WeakMap<object, string>();

  constructor(folder: string, maxLength: number) {
    this.#folder = folder;
    this.#maxLength = maxLength;
  }

  /** Stores a large body first, so that no message ever refers to a body that is not there. */
  async encode(body: unknown): Promise<string> {
    const text = JSON.stringify(body);
    if (text.length <= this.#maxLength) return `=${text}`;
    const name = crypto.randomUUID();
    const path = join(this.#folder, name);
    await writeFile(`${path}.part`, text);
    await rename(`${path}.part`, path);
    return `@${name}`;
  }

  async decode(text: string): Promise<unknown> {
    if (!text.startsWith("@")) return JSON.parse(text.slice(1));
    const name = text.slice(1);
    if (!/^[\da-f-]{36}$/.test(name)) throw new Error(`Invalid reference "${name}"`);
    const body = JSON.parse(await readFile(join(this.#folder, name), "utf8"));
    if (typeof body === "object" && body !== null) this.#names.set(body, name);
    return body;
  }

  /** Rule 1: deletes the stored text of a body, if it has one. Call it after the acknowledgement. */
  async discard(body: object): Promise<void> {
    const name = this.#names.get(body);
    if (name !== undefined) await rm(join(this.#folder, name), { force: true });
  }

  /** Rule 2: deletes the texts that are older than `ageMs`, and returns their number. */
  async sweep(ageMs: number, now = Date.now()): Promise<number> {
    let count = 0;
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      const { mtimeMs } = await stat(path);
      if (now - mtimeMs <= ageMs) continue;
      await rm(path, { force: true });
      count++;
    }
    return count;
  }
}

const folder = await mkdtemp(join(tmpdir(), "lastcall-bodies-"));
const stored = async (when: string) => {
  console.log(`${when}: ${(await readdir(folder)).length} stored`);
};

const codec = new ClaimCheck(folder, 1_000);
const photos = new InMemoryMailbox<{ name: string; pixels: string }>("photos", { codec });
const options = { expiresInMs: MESSAGES_EXPIRE_MS };
await photos.send({ name: "small", pixels: "#".repeat(10) }, options);
await photos.send({ name: "large", pixels: "#".repeat(100_000) }, { ...options, id: "large" });
await stored("after two sends");
await photos.send({ name: "large", pixels: "#".repeat(100_000) }, { ...options, id: "large" });
await stored("after a duplicate");

const album = new MailboxLoop({
  mailbox: photos,
  handler: async (message) => {
    const { name, pixels } = message.body;
    console.log(`${name}: ${pixels.length} pixels`);
    await message.acknowledge(); // throws if another worker has the message: that one needs the body
    await codec.discard(message.body);
  },
});
await new LoopGroup([album]).run({ maxMessages: 2 });
await stored("after the handlers");

await codec.sweep(BODIES_EXPIRE_MS);
await stored("after a sweep today");
await codec.sweep(BODIES_EXPIRE_MS, Date.now() + 9 * DAY_MS);
await stored("after a sweep in nine days");
await photos.close();
await rm(folder, { recursive: true });
