import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { Clock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { Worker } from "./_worker.ts";

const VISIBILITY_MS = 10_000;

/** A worker whose process dies of some messages: its handlers never end, and its leases expire. */
class MortalWorker extends Worker {
  /** Runs a loop until a message kills it or none is left; returns what was in flight at its death. */
  async live(deadly: number, onHandled: (body: number) => void): Promise<number[]> {
    let dead = false;
    const loop = this.loop(async ({ body }) => {
      dead ||= body === deadly;
      if (!dead) await this.clock.sleep(100);
      if (dead) await new Promise(() => {});
      onHandled(body);
    }, {
      concurrency: 10,
      deadLetter: { maxDeliveries: 3 },
      lease: false,
      clock: this.#newClock(),
    });
    const run = loop.run({ visibilityTimeoutMs: VISIBILITY_MS });
    while (!dead && await this.mailbox.approximateCount() > 0) await this.clock.advance(100);
    const inFlight = loop.inFlight.map(({ id }) => Number(id));
    if (!dead) {
      await this.clock.until(loop.shutdown());
      await run;
    }
    await this.clock.advance(VISIBILITY_MS);
    return inFlight;
  }

  /** Each process has a clock of its own. */
  #newClock(): Clock {
    const { clock } = this;
    return {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      sleep: (ms, options) => clock.sleep(ms, options),
      schedule: (ms, task) => clock.schedule(ms, task),
    };
  }
}

describe("a message that kills its process", () => {
  it("is dead-lettered alone: those beside it are handled", async () => {
    const worker = new MortalWorker();
    for (let body = 1; body <= 30; body++) await worker.mailbox.send(body, { id: String(body) });
    const handled: number[] = [];
    const deaths: number[][] = [];
    for (let life = 0; life < 6; life++) {
      const atDeath = await worker.live(5, (body) => handled.push(body));
      if (atDeath.length > 0) deaths.push(atDeath);
    }
    assertEquals(deaths.map((inFlight) => inFlight.length), [10, 10, 1, 1]);
    assertEquals(deaths.slice(2), [[5], [5]], "from the third time on it was alone");
    assertEquals(handled.sort((a, b) => a - b), all(30).filter((body) => body !== 5));
    const letters = await worker.mailbox.deadLetters.receive({ maxMessages: 10 });
    assertEquals(letters.map(({ body }) => [body.body, body.reason]), [[5, "max_deliveries"]]);
  });

  it("does not take along one that was never started", async () => {
    const worker = new Worker();
    await worker.fill(2);
    for (let crash = 0; crash < 3; crash++) {
      await worker.mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 1_000 }); // and it dies
      await worker.clock.advance(1_000);
    }
    const inFlight: number[] = [];
    let atWork = 0;
    const loop = worker.loop(async () => {
      inFlight.push(++atWork);
      await worker.clock.sleep(100);
      atWork--;
    }, { concurrency: 2, deadLetter: { maxDeliveries: 3 } });
    await worker.workOff(loop);
    const { acknowledged, deadLettered, released } = loop.counts;
    assertEquals([acknowledged, deadLettered, released], [2, 0, 2]);
    assertEquals(inFlight, [1, 1], "each ran alone");
  });

  it("is never handled twice with maxDeliveries: 1", async () => {
    const worker = new Worker();
    await worker.fill(1);
    await worker.mailbox.receive({ visibilityTimeoutMs: 1_000 }); // and its process dies
    await worker.clock.advance(1_000);
    let handled = 0;
    const loop = worker.loop(() => void handled++, { deadLetter: { maxDeliveries: 1 } });
    await worker.workOff(loop);
    assertEquals([handled, loop.counts.deadLettered], [0, 1]);
  });

  it("holds up no other message: those that come with suspects run together", async () => {
    const worker = new Worker();
    await worker.fill(1);
    for (let crash = 0; crash < 3; crash++) {
      await worker.mailbox.receive({ visibilityTimeoutMs: 1_000 });
      await worker.clock.advance(1_000);
    }
    await worker.fill(5);
    const startedAt: number[] = [];
    const loop = worker.loop(async () => {
      startedAt.push(worker.clock.monotonic() - 3_000);
      await worker.clock.sleep(100);
    }, { concurrency: 5, deadLetter: { maxDeliveries: 3 } });
    await worker.workOff(loop);
    assertEquals(startedAt.slice(0, 4), [0, 0, 0, 0]);
    assertEquals(loop.counts.acknowledged, 6);
  });

  it("never runs beside a suspect of another loop of the process", async () => {
    const worker = new Worker();
    const other = new InMemoryMailbox<number>("other", { clock: worker.clock, log: silentLog });
    await worker.fill(2);
    await other.sendMany([3, 4]);
    for (let crash = 0; crash < 2; crash++) {
      for (const mailbox of [worker.mailbox, other]) {
        await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 1_000 }); // and it dies
      }
      await worker.clock.advance(1_000);
    }
    let atWork = 0;
    const most: number[] = [];
    const loops = [worker.mailbox, other].map((mailbox) =>
      worker.loop(async () => {
        most.push(++atWork);
        await worker.clock.sleep(300);
        atWork--;
      }, { mailbox, concurrency: 2 })
    );
    const runs = loops.map((loop) => loop.run());
    while (most.length < 4 || atWork > 0) await worker.clock.advance(100);
    await worker.clock.until(Promise.all(loops.map((loop) => loop.shutdown())));
    await Promise.all(runs);
    assertEquals(most, [1, 1, 1, 1]);
    assertEquals(loops.map(({ counts }) => counts.acknowledged), [2, 2]);
  });

  it("counts no delivery as a failure that ended because the process died", async () => {
    const worker = new Worker();
    await worker.fill(1);
    for (let crash = 0; crash < 3; crash++) {
      await worker.mailbox.receive({ visibilityTimeoutMs: 1_000 });
      await worker.clock.advance(1_000);
    }
    let failures = 0;
    const loop = worker.loop(() => {
      if (++failures < 3) throw new Error("busy");
    }, { deadLetter: { maxDeliveries: 3 }, backoff: { minMs: 1, maxMs: 1 } });
    await worker.workOff(loop);
    assertEquals([loop.counts.acknowledged, loop.counts.deadLettered], [1, 0]);
  });

  it("runs alone one after another where an engine cannot restore attempts", async () => {
    const worker = new Worker();
    await worker.fill(3);
    for (let crash = 0; crash < 3; crash++) {
      await worker.mailbox.receive({ maxMessages: 3, visibilityTimeoutMs: 1_000 });
      await worker.clock.advance(1_000);
    }
    const capabilities = { ...worker.mailbox.capabilities, restoresAttempts: false };
    Object.defineProperty(worker.mailbox, "capabilities", { value: capabilities });
    let atWork = 0;
    const loop = worker.loop(async () => {
      assertEquals(++atWork, 1);
      await worker.clock.sleep(100);
      atWork--;
    }, { concurrency: 3, deadLetter: { maxDeliveries: 3 } });
    await worker.workOff(loop);
    assertEquals([loop.counts.acknowledged, loop.counts.released], [3, 0]);
  });
});

function all(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i + 1);
}
