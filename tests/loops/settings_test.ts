import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { backoffMs } from "../../src/_backoff.ts";
import { RetryLaterError } from "../../src/errors.ts";
import { LeaseExtender } from "../../src/lease/lease_extender.ts";
import { LoopGroup } from "../../src/group/loop_group.ts";
import { MailboxLoop, type MailboxLoopOptions } from "../../src/loops/mailbox_loop.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { DeadLetterPolicy } from "../../src/mailbox/dead_letters.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { FakeRuntime } from "../../src/testing/mod.ts";
import { systemRandom } from "../../src/random.ts";

const TWELVE_HOURS_MS = 43_200_000;
const TEXT = "5" as unknown as number;
const BAD_BACKOFFS = [-1, NaN, Infinity, TWELVE_HOURS_MS + 1, TEXT];

function loopWith(options: Partial<MailboxLoopOptions<number>>): MailboxLoop<number> {
  const mailbox = new InMemoryMailbox<number>("jobs");
  return new MailboxLoop({ mailbox, handler: () => {}, ...options });
}

/** A mailbox that fails the test when a loop receives from it. */
function untouched(): InMemoryMailbox<number> {
  const mailbox = new InMemoryMailbox<number>("jobs");
  mailbox.receive = () => Promise.reject(new Error("the loop has started"));
  return mailbox;
}

describe("Settings of a MailboxLoop", () => {
  it("refuses a visibility timeout or a wait that no mailbox takes, before it receives", async () => {
    const loop = loopWith({ mailbox: untouched() });
    const group = new LoopGroup([loop], { runtime: new FakeRuntime() });
    for (const visibilityTimeoutMs of [Infinity, TWELVE_HOURS_MS + 1, -1, NaN]) {
      const said = `from 0 to ${TWELVE_HOURS_MS}, got ${visibilityTimeoutMs}`;
      await assertRejects(() => loop.run({ visibilityTimeoutMs }), RangeError, said);
      await assertRejects(() => group.run({ visibilityTimeoutMs }), RangeError, said);
    }
    for (const waitTimeMs of [-1, NaN]) {
      await assertRejects(() => loop.run({ waitTimeMs }), RangeError, "Invalid waitTimeMs");
    }
  });

  for (const bad of BAD_BACKOFFS) {
    it(`refuses a backoff of ${typeof bad} ${bad}`, () => {
      const text = `expected milliseconds from 0 to ${TWELVE_HOURS_MS}`;
      const Kind = bad === TEXT ? TypeError : RangeError;
      assertThrows(() => loopWith({ backoff: { minMs: bad } }), Kind, text);
      assertThrows(() => loopWith({ backoff: { maxMs: bad } }), Kind, text);
    });
  }

  it("refuses a shortest backoff above the longest, and adapts the one that is not given", () => {
    const backoff = { minMs: 2_000, maxMs: 1_000 };
    assertThrows(() => loopWith({ backoff }), RangeError, "at most backoff.maxMs (1000), got 2000");
    loopWith({ backoff: { minMs: 600_000 } });
    loopWith({ backoff: { maxMs: 500 } });
    loopWith({ backoff: { minMs: 0, maxMs: 0 } });
  });

  it("refuses a schema and an onDeadLetter that cannot be called", () => {
    assertThrows(() => loopWith({ schema: {} as never }), TypeError, "Invalid schema");
    assertThrows(
      () => loopWith({ onDeadLetter: "tell" as never }),
      TypeError,
      "Invalid onDeadLetter",
    );
  });

  it("refuses a lease that lasts longer than a mailbox can hide a message", () => {
    const lease = { extensionMs: TWELVE_HOURS_MS + 1 };
    assertThrows(() => loopWith({ lease }), RangeError, "Invalid extensionMs");
    new LeaseExtender({ extensionMs: TWELVE_HOURS_MS });
  });
});

describe("The backoff of a failed message", () => {
  it("is a number at every attempt", () => {
    for (const attempt of [1, 2, 1_024, 1_025, 5_000, Infinity]) {
      assertEquals(backoffMs(attempt, 0, 60_000), 0);
      const ms = backoffMs(attempt, 1, 60_000, { ...systemRandom, number: () => 1 });
      assert(ms > 0 && ms <= 60_000, `${ms} at attempt ${attempt}`);
    }
  });
});

describe("RetryLaterError", () => {
  it("refuses a delay that is none", () => {
    for (const delayMs of [-1, NaN]) {
      assertThrows(() => new RetryLaterError("later", { delayMs }), RangeError, "Invalid delayMs");
    }
    assertThrows(() => new RetryLaterError("later", { delayMs: TEXT }), TypeError, "delayMs");
    assertEquals(new RetryLaterError("later", { delayMs: 0 }).delayMs, 0);
    assertEquals(new RetryLaterError("later").delayMs, undefined);
  });
});

describe("Settings of dead letters", () => {
  it("refuses a number of letters to redrive that is none", async () => {
    const mailbox = new InMemoryMailbox<number>("jobs");
    for (const maxMessages of [-1, 1.5, NaN]) {
      await assertRejects(() => redrive(mailbox, { maxMessages }), RangeError, "maxMessages");
    }
  });

  it("refuses classes of errors that are none", () => {
    const types = [undefined, "TypeError", {}] as unknown as typeof TypeError[];
    for (const type of types) {
      assertThrows(() => new DeadLetterPolicy({ include: [type] }), TypeError, "include");
      assertThrows(() => new DeadLetterPolicy({ exclude: [type] }), TypeError, "exclude");
    }
  });
});
