import { describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { BatchLoop, type BatchLoopOptions } from "../../src/loops/batch_loop.ts";
import { deferred } from "../../src/_promises.ts";
import { isCancelledError, RetryLaterError } from "../../src/errors.ts";
import { silentLog } from "../../src/log.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

/** A mailbox of numbers and a batch loop on a virtual clock. */
class Fixture {
  readonly clock = new VirtualClock();
  readonly mailbox = new InMemoryMailbox<number>("numbers", { clock: this.clock, log: silentLog });

  async fill(count: number): Promise<void> {
    await this.mailbox.sendMany(Array.from({ length: count }, (_, i) => i + 1));
  }

  loop(
    handler: BatchLoopOptions<number>["handler"],
    options: Partial<BatchLoopOptions<number>> = {},
  ): BatchLoop<number> {
    const { clock, mailbox } = this;
    return new BatchLoop({ mailbox, clock, log: silentLog, handler, ...options });
  }

  /** Runs a loop until its messages are settled or `ms` have passed. */
  async runFor(loop: BatchLoop<number>, ms: number): Promise<void> {
    const run = loop.run();
    await this.clock.advance(ms);
    await this.clock.until(loop.shutdown());
    await run;
  }
}

const bodies = (messages: readonly { readonly body: number }[]) => messages.map(({ body }) => body);

describe("BatchLoop", () => {
  it("calls its handler with full batches at once, and with the rest after waitMs", async () => {
    const it = new Fixture();
    await it.fill(7);
    const calls: [number, number[]][] = [];
    const loop = it.loop((messages) => {
      calls.push([it.clock.monotonic(), bodies(messages)]);
    }, { maxMessages: 3, waitMs: 500 });
    await it.runFor(loop, 2_000);
    assertEquals(calls, [[0, [1, 2, 3]], [0, [4, 5, 6]], [500, [7]]]);
    assertEquals(loop.counts.acknowledged, 7);
  });

  it("collects messages that arrive within waitMs of the first", async () => {
    const it = new Fixture();
    const calls: [number, number[]][] = [];
    const loop = it.loop((messages) => {
      calls.push([it.clock.monotonic(), bodies(messages)]);
    }, { waitMs: 1_000 });
    const run = loop.run();
    for (const body of [1, 2, 3]) {
      await it.mailbox.send(body);
      await it.clock.advance(400);
    }
    await it.clock.advance(1_000);
    await it.clock.until(loop.shutdown());
    await run;
    assertEquals(calls, [[1_000, [1, 2, 3]]]);
  });

  it("acknowledges a batch in one call", async () => {
    const it = new Fixture();
    await it.fill(5);
    const { mailbox } = it;
    const acknowledgeMany = mailbox.acknowledgeMany.bind(mailbox);
    const sizes: number[] = [];
    mailbox.acknowledgeMany = (messages) => {
      sizes.push(messages.length);
      return acknowledgeMany(messages);
    };
    await it.runFor(it.loop(() => {}, { maxMessages: 5 }), 10);
    assertEquals(sizes, [5]);
  });

  it("retries or dead-letters only the messages that were passed to fail", async () => {
    const it = new Fixture();
    await it.fill(4);
    const calls: number[][] = [];
    const loop = it.loop((messages, { fail }) => {
      calls.push(bodies(messages));
      for (const message of messages) {
        if (message.body === 2) fail(message, new Error("bad"));
        if (message.body === 3 && calls.length === 1) {
          fail(message, new RetryLaterError("later", { delayMs: 5_000 }));
        }
      }
    }, { maxMessages: 4, waitMs: 100, deadLetter: { maxDeliveries: 1 } });
    await it.runFor(loop, 10_000);
    assertEquals(calls, [[1, 2, 3, 4], [3]]);
    const { acknowledged, nacked, deadLettered } = loop.counts;
    assertEquals([acknowledged, nacked, deadLettered], [3, 1, 1]);
    const [letter] = await it.mailbox.deadLetters.receive();
    assertEquals([letter?.body.body, letter?.body.error], [2, "Error: bad"]);
  });

  it("retries all messages of a batch whose handler throws", async () => {
    const it = new Fixture();
    await it.fill(3);
    let calls = 0;
    const loop = it.loop(() => {
      if (++calls === 1) throw new Error("database is away");
    }, { maxMessages: 3, waitMs: 100, backoff: { minMs: 1_000, maxMs: 1_000 } });
    await it.runFor(loop, 5_000);
    assertEquals([loop.counts.nacked, loop.counts.acknowledged], [3, 3]);
  });

  it("handles as many batches at a time as concurrency says", async () => {
    for (const concurrency of [1, 2]) {
      const it = new Fixture();
      await it.fill(2);
      let running = 0;
      let most = 0;
      let handled = 0;
      const loop = it.loop(async (messages) => {
        most = Math.max(most, ++running);
        await it.clock.sleep(1_000);
        running--;
        handled += messages.length;
      }, { maxMessages: 4, waitMs: 10, concurrency });
      const run = loop.run();
      for (let i = 0; i < 20; i++) {
        await it.clock.advance(100);
        await it.mailbox.send(i);
      }
      await it.clock.advance(20_000);
      await it.clock.until(loop.shutdown());
      await run;
      assertEquals([most, handled], [concurrency, 22]);
    }
  });

  it("a stop finishes the running batch, and releases the messages that are being collected", async () => {
    const it = new Fixture();
    await it.fill(3);
    const started = deferred();
    const handled: number[][] = [];
    const loop = it.loop(async (messages) => {
      started.resolve();
      await it.clock.sleep(2_000);
      handled.push(bodies(messages));
    }, { maxMessages: 2, waitMs: 60_000, concurrency: 2 });
    const run = loop.run();
    await it.clock.until(started.promise);
    await it.clock.advance(10);
    const before = it.clock.monotonic();
    await it.clock.until(loop.shutdown());
    await run;
    assertEquals([handled, it.clock.monotonic() - before], [[[1, 2]], 1_990]);
    const { acknowledged, released, leftToExpire } = loop.counts;
    assertEquals([acknowledged, released, leftToExpire], [2, 1, 0]);
    assertEquals((await it.mailbox.receive()).map(({ deliveryCount }) => deliveryCount), [1]);
    assertEquals(it.clock.pending, 0);
  });

  it("aborts signal near the deadline, and signalOf for one cancelled message", async () => {
    const it = new Fixture();
    await it.fill(2);
    const started = deferred();
    const reasons: unknown[] = [];
    const loop = it.loop(async (messages, { signal, signalOf }) => {
      started.resolve();
      const [first, second] = messages;
      await it.clock.sleep(1_000);
      reasons.push(signalOf(first!).reason, signalOf(second!).reason, signal.aborted);
      await it.clock.sleep(600_000, { signal });
    }, { maxMessages: 2 });
    const run = loop.run();
    await it.clock.until(started.promise);
    const [one] = await it.mailbox.peek(1);
    await it.mailbox.cancel(one!.id);
    await it.clock.advance(1_000);
    assert(isCancelledError(reasons[0]));
    assertEquals(reasons.slice(1), [undefined, false]);
    await it.clock.until(loop.shutdown({ timeoutMs: 5_000 }));
    await run;
    assertEquals([loop.counts.cancelled, loop.counts.released], [1, 1]);
  });

  it("fail refuses a message of another batch", async () => {
    const it = new Fixture();
    await it.fill(1);
    const loop = it.loop((_, { fail }) => fail({ id: "other" } as never, "why"), { waitMs: 0 });
    await it.runFor(loop, 10);
    assertEquals([loop.counts.nacked, loop.counts.acknowledged], [1, 0]);
  });

  it("refuses invalid options", () => {
    const it = new Fixture();
    for (
      const options of [
        { maxMessages: 0 },
        { maxMessages: 1_001 },
        { waitMs: -1 },
        { concurrency: 0 },
        { maxMessages: 500, concurrency: 3 },
      ]
    ) {
      assertThrows(() => it.loop(() => {}, options), RangeError);
    }
    assertThrows(() => it.loop("handler" as never), TypeError, "handler");
  });
});
