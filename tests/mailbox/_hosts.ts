import { appendFileSync } from "node:fs";
import process from "node:process";
import { before, it } from "node:test";
import { assertEquals } from "@std/assert";
import { type Clock, systemClock } from "../../src/clock.ts";
import { deferred } from "../../src/_promises.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import type { MailboxOptions } from "../../src/mailbox/mailbox.ts";
import { MemoryEngine } from "../../src/mailbox/in_memory_mailbox.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import {
  type MailboxCase,
  mailboxCases,
  type MakeMailbox,
  type SkippedMailboxCase,
  skippedMailboxCases,
  VirtualClock,
} from "../../src/testing/mod.ts";
import { type CaseRecord, CONFORMANCE_FILE } from "../../tools/conformance.ts";
import type { RuntimeName } from "../../tools/runtimes.ts";

/**
 * Lets real time pass, by the clock of whoever keeps the messages: a timer may end up to a millisecond
 * before that has gone as far.
 */
export async function realTime(ms: number): Promise<void> {
  await systemClock.sleep(ms === 0 ? 0 : ms + 2);
}

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
          storage.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]),
        ),
      maxBodyBytes,
      close: () => Promise.resolve(assertEquals(clock.pending, 0, "timers are left")),
    };
  };
}

/** How the cases are hosted. */
export interface HostOptions {
  /** The engine's name in the table at the end of the whole run. */
  readonly engine?: string | undefined;
  /**
   * So many cases at a time, for engines whose times are long: the cases mostly wait. They start with the
   * first test of the suite, and each test tells how its case went. @default {1}
   */
  readonly together?: number;
}

/** Hosts all cases. */
export function hostMailboxCases(make: MakeMailbox, options: HostOptions = {}): void {
  const { engine, together = 1 } = options;
  const record = recorder(make, engine);
  const start = together === 1 ? undefined : inLanes(make, together);
  for (const one of mailboxCases) {
    it(`${one.topic}: ${one.name}`, async () => {
      try {
        await (start === undefined ? one.run(make) : start(one));
      } catch (error) {
        await record(one, "failed");
        throw error;
      }
      await record(one, "passed");
    });
  }
}

/** Runs the cases in order, so many at a time; each can be waited for. */
function inLanes(make: MakeMailbox, together: number): (one: MailboxCase) => Promise<void> {
  const queue = mailboxCases.values(); // one for all lanes
  const runs = new Map(mailboxCases.map((one) => [one, deferred<() => Promise<void>>()]));
  const lane = async () => {
    for (const one of queue) {
      const running = one.run(make);
      await running.catch(() => {}); // its own test tells
      runs.get(one)!.resolve(() => running);
    }
  };
  before(() => {
    for (let i = 0; i < together; i++) void lane();
  });
  return async (one) => await (await runs.get(one)!.promise)();
}

/** Writes down what became of a case, where the whole run asks for that. */
function recorder(
  make: MakeMailbox,
  engine: string | undefined,
): (one: MailboxCase, result: "passed" | "failed") => Promise<void> {
  const file = process.env[CONFORMANCE_FILE];
  if (file === undefined || engine === undefined) return () => Promise.resolve();
  const runtime = detectRuntime().name as RuntimeName;
  let lacking: Promise<readonly SkippedMailboxCase[]> | undefined;
  return async ({ topic, name }, end) => {
    const skipped = await (lacking ??= skippedMailboxCases(make));
    const shown = skipped.every((it) => it.topic !== topic || it.name !== name);
    const record: CaseRecord = { engine, runtime, result: shown ? end : "lacking" };
    appendFileSync(file, `${JSON.stringify(record)}\n`);
  };
}
