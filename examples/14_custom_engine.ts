/**
 * 14. Your own engine, and its tests. `_file_engine.ts` stores messages in a JSON file. This program makes a
 * mailbox of it and runs all cases of the mailbox contract.
 *
 *     node examples/14_custom_engine.ts
 *
 * It ends in about a second, because a virtual clock provides the time. Break a method of the engine, such as
 * `extend`, and see which cases fail.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { EngineMailbox, jsonCodec } from "../src/engine.ts";
import { mailboxCases, type MakeMailbox, VirtualClock } from "../src/testing/mod.ts";
import { FileEngine } from "./_file_engine.ts";

/** Creates a new, empty mailbox for each case, and a way to let time pass. */
const make: MakeMailbox = async (options) => {
  const folder = await mkdtemp(join(tmpdir(), "lastcall-example-"));
  const clock = new VirtualClock();
  const engine = new FileEngine(join(folder, "mail.json"), "orders", clock);
  const maxBodyBytes = 4_096;
  return {
    mailbox: new EngineMailbox("orders", engine, jsonCodec(maxBodyBytes), { ...options, clock }),
    tickMs: 1_000,
    pass: (ms) => clock.advance(ms),
    sendRaw: async (body) =>
      await engine.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]),
    maxBodyBytes,
    lacks: ["queues"], // the engine cannot list them
    close: () => rm(folder, { recursive: true }),
  };
};

let passed = 0;
let failed = 0;
let skipped = 0;
for (const { topic, name, run } of mailboxCases) {
  const title = `${topic}: ${name}`;
  let reason: string | undefined;
  try {
    await run(make, (why) => reason = why);
  } catch (error) {
    failed++;
    console.log(`NO    ${title}\n${error}`);
    continue;
  }
  if (reason === undefined) {
    passed++;
    console.log(`ok    ${title}`);
  } else {
    skipped++;
    console.log(`skip  ${title} (${reason})`);
  }
}
console.log(`\n${passed} of ${passed + failed} cases hold, ${skipped} are skipped`);
process.exitCode = failed === 0 ? 0 : 1;
