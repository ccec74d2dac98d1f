// The simulated processes of the playground, on a virtual clock. playground_test.ts tests the page.

import { describe, it } from "node:test";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  Kitchen,
  type KitchenView,
  type Settings,
} from "../../docs/.vitepress/theme/playground/kitchen.ts";
import { seed } from "../_seed.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";

/** A kitchen whose time the test advances. It checks the counts every 100 ms. */
class Bench {
  readonly clock: VirtualClock = new VirtualClock();
  readonly kitchen: Kitchen;

  constructor(workers: number, settings: Partial<Settings> = {}) {
    const defaults = { ordersPerMinute: 0, handlerMs: 3_000, concurrency: 1 };
    this.kitchen = new Kitchen(this.clock, { ...defaults, ...settings });
    for (let i = 0; i < workers; i++) this.kitchen.addWorker();
  }

  async advance(ms: number): Promise<KitchenView> {
    for (let left = ms; left > 0; left -= 100) {
      await this.clock.advance(Math.min(100, left));
      this.view();
    }
    return this.view();
  }

  view(): KitchenView {
    const view = this.kitchen.view();
    const { sent, ...others } = view.counts;
    assertEquals(Object.values(others).reduce((sum, it) => sum + it), sent);
    return view;
  }

  /** Returns the events, oldest first. */
  get events(): readonly string[] {
    return this.view().events.map(({ text }) => text).toReversed();
  }
}

describe("a worker of the playground", () => {
  it("handles an order and shows its progress and its lease", async () => {
    const bench = new Bench(1);
    await bench.advance(100);
    await bench.kitchen.send(1);
    const { workers: [worker] } = await bench.advance(1_600);
    assertEquals([worker!.state, worker!.hands.length], ["running", 1]);
    const { id, delivery, progress, leaseMs } = worker!.hands[0]!;
    assertEquals([id, delivery, Math.round(progress * 10)], ["order-1", 1, 5]);
    assert(leaseMs > 4_000 && leaseMs < 5_000, `${leaseMs} ms`);
    const { counts, workers } = await bench.advance(2_000);
    assertEquals([counts.handled, workers[0]!.handled, workers[0]!.hands], [1, 1, []]);
  });

  it("extends the lease of an order that takes longer than the lease", async () => {
    const bench = new Bench(2, { handlerMs: 15_000 });
    await bench.kitchen.send(1);
    const { workers } = await bench.advance(10_000);
    const { leaseMs } = workers.flatMap(({ hands }) => hands)[0]!;
    assert(leaseMs > 3_000, `${leaseMs} ms`);
    const { counts, redelivered, refused } = await bench.advance(6_000);
    assertEquals([counts.handled, redelivered, refused], [1, 0, 0]);
  });

  it("drains on SIGTERM: it finishes its order, reports exit code 0 and takes no new order", async () => {
    const bench = new Bench(1);
    await bench.kitchen.send(2);
    await bench.advance(500);
    bench.kitchen.stop("Worker 1");
    const draining = await bench.advance(500);
    assertEquals(draining.workers[0]!.state, "draining");
    const { workers: [worker], counts } = await bench.advance(3_000);
    assertEquals([worker!.state, worker!.ended], ["stopped", true]);
    assertStringIncludes(worker!.end!, "drained in");
    assertStringIncludes(worker!.end!, "(SIGTERM), exit code 0\n  orders: ended");
    assertEquals([counts.handled, counts.waiting], [1, 1]);
  });

  it("stops alone: a signal to one worker does not reach the others", async () => {
    const bench = new Bench(2);
    bench.kitchen.stop("Worker 1");
    const { workers } = await bench.advance(500);
    assertEquals(workers.map(({ state }) => state), ["stopped", "running"]);
  });

  it("releases its order at the second signal, and reports exit code 143", async () => {
    const bench = new Bench(1, { handlerMs: 8_000 });
    await bench.kitchen.send(1);
    await bench.advance(500);
    bench.kitchen.stop("Worker 1");
    await bench.advance(500);
    bench.kitchen.stop("Worker 1");
    const { workers: [worker], counts } = await bench.advance(500);
    assertStringIncludes(worker!.end!, "forced in");
    assertStringIncludes(worker!.end!, "exit code 143");
    assertEquals([counts.waiting, counts.inFlight], [1, 0]);
  });

  it("cancels an order that takes longer than the shutdown timeout", async () => {
    const bench = new Bench(1, { handlerMs: 60_000 });
    await bench.kitchen.send(1);
    await bench.advance(500);
    bench.kitchen.stop("Worker 1");
    const { workers: [worker], counts } = await bench.advance(10_000);
    assert(bench.events.some((it) => it.startsWith("Worker 1: cancelling")), `${bench.events}`);
    assertStringIncludes(worker!.end!, "1 released");
    assertEquals(counts.waiting, 1);
  });

  it("is killed: its order is handled by another worker when the lease has expired", async () => {
    const bench = new Bench(2);
    await bench.kitchen.send(1);
    await bench.advance(1_000);
    bench.kitchen.kill("Worker 1");
    const killed = await bench.advance(1_000);
    assertEquals(killed.workers.map(({ state }) => state), ["killed", "running"]);
    assertEquals(killed.workers[0]!.hands.map(({ id }) => id), ["order-1"]);
    const { workers, counts, redelivered } = await bench.advance(8_000);
    assertEquals([workers[0]!.hands, workers[1]!.handled], [[], 1]);
    assertEquals([counts.handled, redelivered], [1, 1]);
    assert(bench.events.includes("Worker 2: handled order-1 (delivery 2)"), `${bench.events}`);
  });

  it("does nothing after it was killed, and starts again as a new process", async () => {
    const bench = new Bench(1);
    await bench.kitchen.send(1, true);
    await bench.kitchen.send(2);
    await bench.advance(1_000);
    bench.kitchen.kill("Worker 1");
    const dead = await bench.advance(60_000);
    assertEquals([dead.counts.waiting, dead.counts.handled], [3, 0]);
    assertEquals(bench.events.at(-1), "Worker 1: killed");
    bench.kitchen.start("Worker 1");
    const { counts, workers } = await bench.advance(25_000);
    assertEquals([counts.handled, workers[0]!.end], [2, undefined]);
  });

  it("receives nothing when it is killed or frozen in the moment of its start", async () => {
    const bench = new Bench(0);
    await bench.kitchen.send(2);
    bench.kitchen.addWorker();
    bench.kitchen.kill("Worker 1");
    bench.kitchen.addWorker();
    bench.kitchen.toggleFreeze("Worker 2");
    const { counts } = await bench.advance(1_000);
    assertEquals([counts.waiting, counts.inFlight], [2, 0]);
    bench.kitchen.toggleFreeze("Worker 2");
    assertEquals((await bench.advance(4_000)).counts.handled, 1);
  });

  it("is frozen for longer than its lease: another handles the order, its own acknowledge is refused", async () => {
    const bench = new Bench(2);
    await bench.kitchen.send(1);
    await bench.advance(1_000);
    bench.kitchen.toggleFreeze("Worker 1");
    const frozen = await bench.advance(5_500);
    assertEquals(frozen.workers[0]!.state, "frozen");
    assertEquals(frozen.workers[0]!.hands.map(({ leaseMs }) => leaseMs), [0]);
    await bench.advance(4_000);
    bench.kitchen.toggleFreeze("Worker 1");
    const { workers, counts, refused } = await bench.advance(500);
    assertEquals(workers.map(({ state }) => state), ["running", "running"]);
    assertEquals([counts.handled, workers[0]!.handled, workers[1]!.handled], [1, 0, 1]);
    assertEquals([refused, workers[0]!.hands], [1, []]);
    const late = "acknowledge of order-1 refused: the lease of delivery 1 has expired";
    assert(bench.events.includes(`Worker 1: ${late}`), `${bench.events}`);
    assert(bench.events.some((it) => it.includes("lease lost")), `${bench.events}`);
  });

  it("is frozen for less than its lease: it finishes its order", async () => {
    const bench = new Bench(2);
    await bench.kitchen.send(1);
    await bench.advance(1_000);
    bench.kitchen.toggleFreeze("Worker 1");
    const { workers } = await bench.advance(4_000);
    assertEquals(Math.round(workers[0]!.hands[0]!.progress * 3), 1);
    bench.kitchen.toggleFreeze("Worker 1");
    const { counts, redelivered, refused } = await bench.advance(500);
    assertEquals([counts.handled, redelivered, refused], [1, 0, 0]);
  });

  it("gets a signal that was sent while it was frozen when it continues", async () => {
    const bench = new Bench(1);
    bench.kitchen.toggleFreeze("Worker 1");
    bench.kitchen.stop("Worker 1");
    assertEquals((await bench.advance(5_000)).workers[0]!.state, "frozen");
    bench.kitchen.toggleFreeze("Worker 1");
    assertEquals((await bench.advance(100)).workers[0]!.state, "stopped");
  });

  it("ends at once by the third signal, without a report", async () => {
    const bench = new Bench(1, { handlerMs: 8_000 });
    await bench.kitchen.send(1);
    await bench.advance(500);
    bench.kitchen.stop("Worker 1");
    await bench.advance(500);
    bench.kitchen.stop("Worker 1");
    await bench.clock.advance(1); // the answer to the release is still under way
    bench.kitchen.toggleFreeze("Worker 1");
    await bench.advance(500);
    bench.kitchen.stop("Worker 1");
    bench.kitchen.toggleFreeze("Worker 1");
    const { workers: [worker], counts } = await bench.advance(100);
    assertEquals([worker!.ended, counts.waiting], [true, 1]);
    assertStringIncludes(worker!.end!, "ended at once, exit code 143: no report");
  });

  it("dead-letters a poison order after three attempts, and goes on", async () => {
    const bench = new Bench(1, { handlerMs: 500 });
    await bench.kitchen.send(1, true);
    await bench.kitchen.send(1);
    const { counts, workers } = await bench.advance(12_000);
    assertEquals([counts.dead, counts.handled, counts.sent], [1, 1, 2]);
    assertEquals(workers[0]!.state, "running");
    assert(
      bench.events.some((it) => it.includes("message dead-lettered (poison-1")),
      `${bench.events}`,
    );
  });
});

describe("the kitchen of the playground", () => {
  it("sends orders at the rate of its settings, which can change", async () => {
    const bench = new Bench(0, { ordersPerMinute: 60 });
    assertEquals((await bench.advance(5_050)).counts.sent, 5);
    bench.kitchen.settings.ordersPerMinute = 0;
    assertEquals((await bench.advance(10_000)).counts.sent, 5);
    bench.kitchen.settings.ordersPerMinute = 120;
    assertEquals((await bench.advance(1_600)).counts.sent, 8);
  });

  it("refuses orders when the queue is full, and keeps the counts", async () => {
    const bench = new Bench(0);
    await bench.kitchen.send(201);
    assertEquals(bench.view().counts, {
      sent: 200,
      handled: 0,
      waiting: 200,
      delayed: 0,
      inFlight: 0,
      dead: 0,
    });
    assertStringIncludes(bench.events.at(-1)!, "Order refused");
  });

  it("keeps six workers and 50 events at the most", async () => {
    const bench = new Bench(7);
    for (let i = 0; i < 60; i++) bench.kitchen.toggleFreeze("Worker 1");
    const { workers, events } = await bench.advance(100);
    assertEquals([workers.length, events.length], [6, 50]);
  });

  it("loses no order while workers are stopped, killed and frozen at random", async () => {
    let state = seed;
    const random = (max: number) => (state = state * 48_271 % 0x7fffffff || 1) % max;
    const bench = new Bench(3, { ordersPerMinute: 60, handlerMs: 1_500, concurrency: 2 });
    const acts = ["stop", "kill", "toggleFreeze", "start"] as const;
    for (let i = 0; i < 60; i++) {
      bench.kitchen[acts[random(acts.length)]!](`Worker ${1 + random(3)}`);
      if (random(5) === 0) await bench.kitchen.send(1, true);
      await bench.advance(random(4_000));
    }
    bench.kitchen.settings.ordersPerMinute = 0;
    for (const { name, frozen } of bench.view().workers) {
      if (frozen) bench.kitchen.toggleFreeze(name);
    }
    await bench.advance(15_000);
    for (const { name } of bench.view().workers) bench.kitchen.start(name);
    const { counts } = await bench.advance(150_000);
    const { sent, handled, dead } = counts;
    assertEquals({ seed, left: sent - handled - dead }, { seed, left: 0 });
  });
});
