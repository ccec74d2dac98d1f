/**
 * 24. Large bodies. A codec stores bodies above a limit elsewhere, here in a folder, and the message carries
 * a reference (a claim check). Senders and handlers do not notice.
 *
 *     node examples/24_claim_check.ts
 *
 * It ends by itself. A stored body is deleted by two rules, and both are needed:
 *
 * 1. After the acknowledgement, never before it: a message without its body could not be handled.
 * 2. By age, because some bodies are never acknowledged: those of duplicates, cancelled messages and dead
 *    letters, each with a copy of its own. Messages expire before stored bodies do, so no message that can be
 *    delivered has lost its body. Redrive a dead letter within that age.
 */

import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InMemoryMailbox, LoopGroup, MailboxLoop } from "../mod.ts";
import { ClaimCheck } from "./_claim_check.ts";

const DAY_MS = 86_400_000;
const folder = await mkdtemp(join(tmpdir(), "lastcall-bodies-"));
const codec = new ClaimCheck(folder, 1_000);
const photos = new InMemoryMailbox<{ name: string; pixels: string }>("photos", { codec });
const print = async (when: string) => {
  console.log(`${when}: ${(await readdir(folder)).length} stored`);
};

const options = { expiresInMs: 7 * DAY_MS };
await photos.send({ name: "small", pixels: "#".repeat(10) }, options);
await photos.send({ name: "large", pixels: "#".repeat(100_000) }, { ...options, id: "large" });
await print("after two sends");
await photos.send({ name: "large", pixels: "#".repeat(100_000) }, { ...options, id: "large" });
await print("after a duplicate");

const album = new MailboxLoop({
  mailbox: photos,
  handler: async (message) => {
    console.log(`${message.body.name}: ${message.body.pixels.length} pixels`);
    await message.acknowledge(); // throws if another worker has the message: that one needs the body
    await codec.discard(message.body); // rule 1
  },
});
await new LoopGroup([album]).run({ maxMessages: 2 });
await print("after the handlers");

await codec.sweep(8 * DAY_MS); // rule 2: once a day, or a lifecycle rule of the object store
await print("after a sweep today");
await codec.sweep(8 * DAY_MS, Date.now() + 9 * DAY_MS);
await print("after a sweep in nine days");
await photos.close();
await rm(folder, { recursive: true });
