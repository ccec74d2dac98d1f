import { appendFileSync } from "node:fs";
import process from "node:process";
import { it } from "node:test";
import { assertEquals } from "@std/assert";
import type { Clock } from "../../src/clock.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import type { MailboxOptions } from "../../src/mailbox/mailbox_options.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import {
  mailboxCases,
  type MakeMailbox,
  type SkippedMailboxCase,
  skippedMailboxCases,
  VirtualClock,
} from "../../src/testing/mod.ts";
import { type CaseRecord, CONFORMANCE_FILE } from "../../tools/conformance.ts";
import type { RuntimeName } from "../../tools/runtimes.ts";

/** A fixture on the virtual clock, for any mailbox that takes a clock. */
export function onVirtualClock(
  open: (options: MailboxOptions & { readonly clock: Clock }) => Mailbox<unknown>,
): MakeMailbox {
  return (options) => {
    const clock = new VirtualClock();
    return {
      mailbox: open({ ...options, clock }),
      tickMs: 1_000,
      pass: (ms) => clock.advance(ms),
      close: () => Promise.resolve(assertEquals(clock.pending, 0, "timers are left")),
    };
  };
}

/** A fixture with everything: bodies as JSON, and storage that several share. */
export function onSharedEngine(wrap: (engine: Engine<string>) => Engine<string>): MakeMailbox {
  return (options) => {
    const clock = new VirtualClock();
    const storage = new MemoryEngine<string>("orders", Infinity, clock);
    const maxBodyBytes = 4_096;
    const open = () => {
      const codec = jsonCodec(maxBodyBytes);
      return new EngineMailbox<unknown, unknown, string>("orders", wrap(storage), codec, {
        ...options,
        clock,
      });
    };
    return {
      mailbox: open(),
      tickMs: 1_000,
      pass: (ms) => clock.advance(ms),
      sibling: open,
      sendRaw: (body) =>
        Promise.resolve(
          storage.push([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]),
        ),
      maxBodyBytes,
      close: () => Promise.resolve(assertEquals(clock.pending, 0, "timers are left")),
    };
  };
}

/** Hosts all cases, and writes down for which engine, where the table of the whole run lists it. */
export function hostMailboxCases(make: MakeMailbox, engine?: string): void {
  const file = process.env[CONFORMANCE_FILE];
  const record = (result: CaseRecord["result"]) => {
    if (file === undefined || engine === undefined) return;
    const runtime = detectRuntime().name as RuntimeName;
    appendFileSync(file, `${JSON.stringify({ engine, runtime, result } satisfies CaseRecord)}\n`);
  };
  let lacking: Promise<readonly SkippedMailboxCase[]> | undefined;
  for (const { topic, name, run } of mailboxCases) {
    it(`${topic}: ${name}`, async () => {
      try {
        await run(make);
      } catch (error) {
        record("failed");
        throw error;
      }
      if (file === undefined) return;
      const skipped = await (lacking ??= skippedMailboxCases(make));
      record(skipped.some((it) => it.topic === topic && it.name === name) ? "lacking" : "passed");
    });
  }
}
