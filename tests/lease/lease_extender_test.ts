import { describe, it } from "node:test";
import { assert, assertEquals, assertInstanceOf, assertThrows } from "@std/assert";
import { LeaseLostError } from "../../src/errors.ts";
import { LeaseExtender, type LeaseExtenderOptions } from "../../src/lease/lease_extender.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxConnectionError, ReceiptHandleExpiredError } from "../../src/mailbox/errors.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { Mailbox, Message } from "../../src/mailbox/mailbox.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

/** A mailbox with messages in it, an extender, and the extensions that were asked for. */
async function setUp(options: LeaseExtenderOptions = {}, count = 1, visibilityTimeoutMs = 300_000) {
  const clock = new VirtualClock();
  const mailbox = new InMemoryMailbox<number>("work", { clock, log: silentLog });
  await mailbox.sendMany(Array.from({ length: count }, (_, i) => i));
  const messages = await mailbox.receive({ maxMessages: count, visibilityTimeoutMs });
  const extender = new LeaseExtender({ clock, log: silentLog, ...options });
  return { clock, mailbox, messages, message: messages[0]!, extender };
}

/** Replaces how a message is extended, and notes when that is asked for. */
function spy(message: Message<number>, clock: VirtualClock, extend: () => Promise<void>): number[] {
  const at: number[] = [];
  message.extendVisibility = () => {
    at.push(clock.monotonic());
    return extend();
  };
  return at;
}

describe("LeaseExtender", () => {
  it("a lease is extended at the configured interval, first after one interval", async () => {
    const { clock, message, extender } = await setUp({ intervalMs: 100, extensionMs: 60_000 });
    const at = spy(message, clock, () => Promise.resolve());
    const work = extender.extend(message, () => clock.sleep(250));
    await clock.until(work);
    assertEquals(at, [100, 200]);
    assertEquals(extender.counters, { attempts: 2, failures: 0, losses: 0, withheld: 0 });
    assertEquals(clock.pending, 0);
  });

  it("an extended message stays hidden for as long as the work takes", async () => {
    const { clock, mailbox, message, extender } = await setUp({}, 1, 2_000);
    const lease = extender.extend(message, { visibilityTimeoutMs: 2_000 });
    await clock.advance(3_600_000);
    assertEquals(await mailbox.receive(), []);
    await lease.stop();
    await message.acknowledge();
    assertEquals([await mailbox.approximateCount(), clock.pending], [0, 0]);
  });

  it("a disabled extender does nothing", async () => {
    const { clock, message, extender } = await setUp({ enabled: false, intervalMs: 10 });
    const at = spy(message, clock, () => Promise.resolve());
    await clock.until(extender.extend(message, () => clock.sleep(1_000)));
    assertEquals([at.length, clock.pending], [0, 0]);
  });

  it("an expired receipt handle ends its lease and aborts its work, and other leases continue", async () => {
    const { clock, messages: [first, second], extender } = await setUp({ intervalMs: 50 }, 2);
    const at = spy(first!, clock, () => Promise.reject(new ReceiptHandleExpiredError("gone")));
    const kept = spy(second!, clock, () => Promise.resolve());
    const lease = extender.extend(first!);
    const other = extender.extend(second!);
    const { signal } = lease;
    await clock.advance(220);
    assertEquals([at, kept], [[50], [50, 100, 150, 200]]);
    assert(lease.lost && signal.aborted);
    assertInstanceOf(signal.reason, LeaseLostError);
    assertEquals([other.lost, extender.counters.losses], [false, 1]);
    await Promise.all([lease.stop(), other.stop()]);
    assertEquals(clock.pending, 0);
  });

  it("a signal that is read after the loss of its lease is aborted", async () => {
    const { clock, message, extender } = await setUp({ intervalMs: 50 });
    spy(message, clock, () => Promise.reject(new ReceiptHandleExpiredError("gone")));
    const lease = extender.extend(message);
    await clock.advance(60);
    assert(lease.signal.aborted);
    await lease.stop();
  });

  it("any other failure is retried sooner and never aborts the work", async () => {
    const { clock, message, extender } = await setUp({ intervalMs: 100 });
    let failures = 3;
    const at = spy(message, clock, () => {
      if (failures-- > 0) return Promise.reject(new MailboxConnectionError("away"));
      return Promise.resolve();
    });
    const lease = extender.extend(message);
    await clock.advance(300);
    assertEquals(at, [100, 125, 150, 175, 275]);
    assertEquals([lease.signal.aborted, extender.counters.failures], [false, 3]);
    await lease.stop();
  });

  it("stop waits for a running extension", async () => {
    const { clock, message, extender } = await setUp({ intervalMs: 100 });
    let extended = false;
    spy(message, clock, async () => {
      await clock.sleep(30);
      extended = true;
    });
    const lease = extender.extend(message);
    await clock.advance(110);
    await clock.until(Promise.resolve(lease.stop()));
    assertEquals([extended, clock.monotonic()], [true, 130]);
    await clock.advance(1_000);
    assertEquals([extender.counters.attempts, clock.pending], [1, 0]);
  });

  it("all due leases are extended in one call of the mailbox, with one timer", async () => {
    const { clock, mailbox, messages, extender } = await setUp({ intervalMs: 60_000 }, 500);
    let calls = 0;
    const { extendMany } = mailbox;
    mailbox.extendMany = (many, ms) => {
      calls++;
      return extendMany.call(mailbox, many, ms);
    };
    const leases = [];
    for (const message of messages) {
      leases.push(extender.extend(message, { mailbox: mailbox as Mailbox<unknown> }));
      await clock.advance(1);
    }
    assertEquals(clock.pending, 1, "one timer for all leases");
    await clock.advance(59_500);
    assertEquals([calls, extender.counters.attempts], [1, 500]);
    await Promise.all(leases.map((lease) => lease.stop()));
    assertEquals(clock.pending, 0);
  });

  it("the interval adapts to a short visibility timeout, unless `adaptive` is false", async () => {
    const { clock, message, extender } = await setUp();
    const at = spy(message, clock, () => Promise.resolve());
    const lease = extender.extend(message, { visibilityTimeoutMs: 1_000 });
    await clock.advance(1_000);
    assertEquals(at, [400, 800]);
    await lease.stop();
    const stubborn = extender.extend(message, { visibilityTimeoutMs: 1_000, adaptive: false });
    await clock.advance(50_000);
    assertEquals(at.length, 2);
    await stubborn.stop();
  });

  it("one message can have its own options", async () => {
    const { clock, messages: [first, second], extender } = await setUp({ intervalMs: 1_000 }, 2);
    const slow = spy(first!, clock, () => Promise.resolve());
    const fast = spy(second!, clock, () => Promise.resolve());
    const leases = [extender.extend(first!), extender.extend(second!, { intervalMs: 250 })];
    await clock.advance(1_000);
    assertEquals([slow.length, fast.length], [1, 4]);
    for (const lease of leases) await lease.stop();
  });

  it("with `beatWithinMs` a lease is extended only while the work sends heartbeats", async () => {
    const { clock, mailbox, message, extender } = await setUp({ beatWithinMs: 5_000 }, 1, 3_000);
    const lease = extender.extend(message, { visibilityTimeoutMs: 3_000 });
    for (let i = 0; i < 10; i++) {
      await clock.advance(2_000);
      lease.beat();
    }
    assertEquals(await mailbox.receive(), [], "alive, so it is kept");
    await clock.advance(20_000);
    assert(extender.counters.withheld > 0);
    const [again] = await mailbox.receive();
    assertEquals(again?.id, message.id, "stuck, so it went back");
    await lease.stop();
    assertEquals(clock.pending, 0);
  });

  it("an extension never shortens a lease", async () => {
    const { clock, mailbox, message, extender } = await setUp({ intervalMs: 10, extensionMs: 20 });
    const lease = extender.extend(message);
    await clock.advance(15);
    await lease.stop();
    await clock.advance(299_000 - 15);
    assertEquals(await mailbox.receive(), []);
    await message.acknowledge();
  });

  it("invalid options are refused", () => {
    assertThrows(() => new LeaseExtender({ intervalMs: 0 }), RangeError, "intervalMs");
    assertThrows(() => new LeaseExtender({ extensionMs: NaN }), RangeError, "extensionMs");
    assertThrows(() => new LeaseExtender({ beatWithinMs: -1 }), RangeError, "beatWithinMs");
  });
});
