import { appendFileSync } from "node:fs";
import process from "node:process";
import { before, it } from "node:test";
import { assertEquals } from "@std/assert";
import { type Clock, systemClock } from "../../src/clock.ts";
import { deferred } from "../../src/_promises.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import type { Capabilities, Mailbox, MailboxOptions } from "../../src/mailbox/mailbox.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { detectRuntime } from "../../runtime_adapters/detect.ts";
import { skipReason } from "../../src/testing/mailbox_cases/mod.ts";
import {
  type MailboxCase,
  mailboxCases,
  type MailboxPart,
  type MakeMailbox,
  VirtualClock,
} from "../../src/testing/mod.ts";
import { type CaseRecord, CONFORMANCE_FILE } from "../../tools/conformance.ts";
import type { RuntimeName } from "../../tools/runtimes.ts";

/** Lets real time pass. Waits a little longer: a timer can end a millisecond early by the engine's clock. */
export async function realTime(ms: number): Promise<void> {
  await systemClock.sleep(ms === 0 ? 0 : ms + 2);
}

/** Returns a fixture on the virtual clock, for any mailbox with a clock option. */
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

/** Returns a fixture that lacks nothing: bodies are JSON, and several mailboxes share the storage. */
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

/** What an engine lacks: capabilities and parts of the mailbox or its fixture. */
export type Lack = keyof Capabilities | MailboxPart;

/** What no engine of version 0.1 had. */
export const BEYOND_BASIC: readonly Lack[] = [
  "leaseExpiries",
  "keys",
  "priorities",
  "longDelays",
  "dedupWindow",
  "lookup",
  "pause",
  "rateLimit",
  "requests",
  "queues",
];

/** What engines lack by design. Tests that name their engine need not repeat it. */
const LACKS: Readonly<Record<string, readonly Lack[]>> = {
  NATS: ["fifo", "fencedAck", "exactStats", ...BEYOND_BASIC.filter((it) => it !== "longDelays")],
  SQS: ["fifo", "dedup", "exactCount", "exactStats", "restoresAttempts", "peek", ...BEYOND_BASIC],
  memory: ["sibling", "sendRaw", "maxBodyBytes"],
  "Deno KV": ["lookup"],
};

/** Options of {@linkcode hostMailboxCases}. */
export interface HostOptions {
  /** The engine's name in the table at the end of the whole run. */
  readonly engine?: string | undefined;
  /** What the mailbox lacks. Cases that need it are skipped tests. @default what the engine lacks by design */
  readonly lacks?: readonly Lack[];
  /**
   * How many cases run at a time, for engines whose times are long: the cases mostly wait. They start with
   * the first test of the suite, and each test reports the result of its case. @default {1}
   */
  readonly together?: number;
}

/**
 * Registers a test for each case, and a skipped test for each case that the mailbox lacks something for. A
 * case that is skipped for another reason fails, so that no case passes without being tested.
 */
export function hostMailboxCases(make: MakeMailbox, options: HostOptions = {}): void {
  const { engine, together = 1 } = options;
  const lacks = options.lacks ?? LACKS[engine ?? ""] ?? [];
  const reasons = new Map(
    mailboxCases.map((one) => [one, skipReason(one, (what) => lacks.includes(what))]),
  );
  const cases = mailboxCases.filter((one) => reasons.get(one) === undefined);
  const record = recorder(engine);
  const start = together === 1 ? undefined : inLanes(make, cases, together);
  before(() => {
    for (let i = cases.length; i < mailboxCases.length; i++) record("lacking");
  });
  for (const one of mailboxCases) {
    it(`${one.topic}: ${one.name}`, { skip: reasons.get(one) ?? false }, async () => {
      try {
        await (start === undefined ? one.run(make, refuseSkip) : start(one));
      } catch (error) {
        record("failed");
        throw error;
      }
      record("passed");
    });
  }
}

function refuseSkip(why: string): void {
  throw new Error(`The case was skipped because ${why}: add it to the option \`lacks\``);
}

/** Runs the cases in order, some at a time. Returns a function that waits for one of them. */
function inLanes(
  make: MakeMailbox,
  cases: readonly MailboxCase[],
  together: number,
): (one: MailboxCase) => Promise<void> {
  const queue = cases.values(); // one for all lanes
  const runs = new Map(cases.map((one) => [one, deferred<() => Promise<void>>()]));
  const lane = async () => {
    for (const one of queue) {
      const running = one.run(make, refuseSkip);
      await running.catch(() => {}); // its own test reports it
      runs.get(one)!.resolve(() => running);
    }
  };
  before(() => {
    for (let i = 0; i < together; i++) void lane();
  });
  return async (one) => await (await runs.get(one)!.promise)();
}

/** Returns a function that records the result of a case for the table, when the whole run requests it. */
function recorder(engine: string | undefined): (result: CaseRecord["result"]) => void {
  const file = process.env[CONFORMANCE_FILE];
  if (file === undefined || engine === undefined) return () => {};
  const runtime = detectRuntime().name as RuntimeName;
  return (result) => {
    const record: CaseRecord = { engine, runtime, result };
    appendFileSync(file, `${JSON.stringify(record)}\n`);
  };
}
