/**
 * 14. An engine of your own, and the proof that it is one. `_file_engine.ts` keeps messages in a JSON file;
 * here it becomes a mailbox, and every case of the conformance suite is held against it.
 *
 *     node examples/14_custom_engine.ts
 *
 * It ends by itself, in about a second: time is a clock that is moved by hand. Break something in the
 * engine, as `extend`, and see which promise is not kept any more.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { EngineMailbox, jsonCodec } from "../src/engine.ts";
import {
  mailboxCases,
  type MakeMailbox,
  skippedMailboxCases,
  VirtualClock,
} from "../src/testing/mod.ts";
import { FileEngine } from "./_file_engine.ts";

/** A fresh and empty mailbox for each case, and how time passes for it. */
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
      await engine.push([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]),
    maxBodyBytes,
    close: () => rm(folder, { recursive: true }),
  };
};

// A case proves nothing where the mailbox lacks what it is about. Those are known by name, and counted.
const skipped = await skippedMailboxCases(make);
const reason = new Map(skipped.map(({ topic, name, why }) => [`${topic}: ${name}`, why]));

let failures = 0;
for (const { topic, name, run } of mailboxCases) {
  const title = `${topic}: ${name}`;
  try {
    await run(make);
    console.log(reason.has(title) ? `-   ${title} (${reason.get(title)})` : `ok  ${title}`);
  } catch (error) {
    failures++;
    console.log(`NO  ${title}\n${error}`);
  }
}
const shown = mailboxCases.length - skipped.length;
console.log(
  `\n${shown - failures} of ${shown} cases hold, ${skipped.length} have nothing to prove`,
);
process.exitCode = failures === 0 ? 0 : 1;
