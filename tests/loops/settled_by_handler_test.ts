import { describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { isBalanced } from "../../src/lifecycle/runnable.ts";
import { LeaseExtender } from "../../src/lease/lease_extender.ts";
import { silentLog } from "../../src/log.ts";
import type { Message } from "../../src/mailbox/mailbox.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { FaultyMailbox } from "../../src/testing/faulty_mailbox.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { Worker } from "./_worker.ts";

/** Every way for a handler to settle its message, and the figure that has to count it. */
const SETTLEMENTS = [
  ["acknowledge", "acknowledged", (message: Message<number>) => message.acknowledge()],
  ["nack", "nacked", (message: Message<number>) => message.nack({ delayMs: 60_000 })],
  ["release", "released", (message: Message<number>) => message.release()],
  [
    "deadLetter",
    "deadLettered",
    (message: Message<number>) => message.deadLetter({ reason: "spoilt" }),
  ],
] as const;

describe("a handler that settles its message itself", () => {
  for (const [what, figure, settle] of SETTLEMENTS) {
    it(`with ${what} is counted as ${figure}`, async () => {
      const worker = new Worker();
      await worker.fill(1);
      const loop = worker.loop(settle);
      await worker.clock.until(loop.run({ maxIterations: 1 }));
      assertEquals(loop.counts[figure], 1);
      assert(isBalanced(loop.counts));
    });

    it(`with ${what} keeps its signal when the next extension is due`, async () => {
      const worker = new Worker();
      await worker.fill(1);
      let aborted: boolean | undefined;
      const loop = worker.loop(async (message, { signal }) => {
        if (aborted !== undefined) return;
        await settle(message);
        await worker.clock.sleep(60_000);
        aborted = signal.aborted;
      }, { lease: { intervalMs: 1_000 } });
      const run = loop.run({ maxIterations: 1 });
      await worker.clock.until(run);
      assertEquals([aborted, loop.leases.counters.losses], [false, 0]);
    });
  }

  it("and settles it while an extension is under way does not lose its lease", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.send(1);
    let aborted: boolean | undefined;
    const loop = new MailboxLoop({
      mailbox,
      clock,
      log: silentLog,
      lease: { intervalMs: 1_000 },
      handler: async (message, { signal }) => {
        mailbox.freeze("extend");
        await clock.sleep(1_500); // the extension hangs from 1,000 on
        await message.acknowledge();
        mailbox.thaw();
        await clock.sleep(5_000);
        aborted = signal.aborted;
      },
    });
    await clock.until(loop.run({ maxIterations: 1 }));
    assertEquals([aborted, loop.leases.counters.losses], [false, 0]);
    assertEquals(loop.counts.acknowledged, 1);
  });

  it("keeps its lease when settling fails", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.send(1);
    let handled = 0;
    const loop = new MailboxLoop({
      mailbox,
      clock,
      log: silentLog,
      handler: async (message) => {
        handled++;
        mailbox.loseConnection({ operations: ["acknowledge"] });
        await message.acknowledge().catch(() => {});
        mailbox.restoreConnection();
        await clock.sleep(30_000);
      },
    });
    await clock.until(loop.run({ maxIterations: 1, visibilityTimeoutMs: 5_000 }));
    assertEquals([handled, loop.counts.acknowledged], [1, 1]);
  });

  it("and then throws is not dead-lettered, and the log says what happened", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const lines: string[] = [];
    const log = { ...silentLog, warn: note, error: note };
    function note(text: string): void {
      lines.push(text);
    }
    const loop = worker.loop(async (message) => {
      await message.acknowledge();
      throw new Error("too late");
    }, { log, deadLetter: { maxDeliveries: 1 } });
    await worker.clock.until(loop.run({ maxIterations: 1 }));
    assertEquals([loop.counts.acknowledged, loop.counts.deadLettered], [1, 0]);
    assertEquals(lines.length, 1);
    assert(lines[0]!.endsWith("failed after it had settled the message"), lines[0]);
  });

  it("without waiting, and throws, is counted by what came of it, as soon as that is known", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.send(1);
    mailbox.freeze("acknowledge");
    const loop = new MailboxLoop({
      mailbox,
      clock,
      log: silentLog,
      handler: (message) => {
        message.acknowledge();
        throw new Error("too late");
      },
    });
    const run = loop.run({ maxIterations: 1 });
    await clock.advance(10);
    mailbox.thaw();
    await clock.until(run);
    assertEquals([loop.counts.acknowledged, clock.monotonic()], [1, 10]);
  });

  it("without waiting, and returns, is counted by what came of it", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop((message) => void message.nack({ delayMs: 60_000 }));
    await worker.clock.until(loop.run({ maxIterations: 1 }));
    assertEquals([loop.counts.nacked, loop.counts.leftToExpire], [1, 0]);
  });
});

describe("a second lease on one message", () => {
  it("is refused by name, and allowed again when the first has ended", async () => {
    const worker = new Worker();
    const { clock, mailbox } = worker;
    await worker.fill(1);
    const [message] = await mailbox.receive();
    const extender = new LeaseExtender({ clock, log: silentLog });
    const lease = extender.extend(message!);
    assertThrows(() => extender.extend(message!), Error, "it is extended already");
    assertThrows(() => new LeaseExtender({ clock }).extend(message!), Error, message!.id);
    await lease.stop();
    await extender.extend(message!).stop();
    assertEquals(clock.pending, 0);
  });

  it("is refused inside a handler, also for a validated message", async () => {
    const schema = {
      "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) },
    } as const;
    for (const options of [{}, { schema: schema as never }]) {
      const worker = new Worker();
      await worker.fill(1);
      let refused = "";
      const loop = worker.loop((message) => {
        try {
          loop.leases.extend(message as Message<unknown>);
        } catch (error) {
          refused = String(error);
        }
      }, options);
      await worker.clock.until(loop.run({ maxIterations: 1 }));
      assert(refused.includes("it is extended already"), refused);
    }
  });

  it("is the handler's own where the loop keeps none", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop(async (message) => {
      const extender = new LeaseExtender({ clock: worker.clock, log: silentLog });
      await extender.extend(message as Message<unknown>, () => worker.clock.sleep(60_000));
    }, { lease: false });
    await worker.clock.until(loop.run({ maxIterations: 1 }));
    assertEquals(loop.counts.acknowledged, 1);
  });
});
