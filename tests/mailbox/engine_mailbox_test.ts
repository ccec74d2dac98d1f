import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { nextTurn } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { identityCodec } from "../../src/mailbox/codec.ts";
import type { Handover, Received } from "../../src/mailbox/engine.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../src/mailbox/errors.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { skippedMailboxCases, VirtualClock } from "../../src/testing/mod.ts";
import { hostMailboxCases, onSharedEngine } from "./_hosts.ts";
import { RemoteEngine } from "./_remote_engine.ts";

describe("EngineMailbox with JSON bodies and shared storage", () => {
  const make = onSharedEngine((engine) => engine);
  hostMailboxCases(make);
  it("an EngineMailbox with JSON bodies and shared storage skips no case", async () =>
    assertEquals(await skippedMailboxCases(make), []));
});

describe("EngineMailbox on an engine that answers later", () => {
  hostMailboxCases(onSharedEngine((engine) => new RemoteEngine(engine)));
});

/** An engine that wakes only by handovers, when a test says so. It counts its receives. */
class HandingEngine extends MemoryEngine<unknown> {
  listener: ((handover?: Handover<unknown>) => void) | undefined;
  /** The third argument of each receive. */
  readonly waits: boolean[] = [];

  override onWake(listener: (handover?: Handover<unknown>) => void): () => void {
    this.listener = listener;
    return () => this.listener = undefined;
  }

  override receive(max: number, visibilityMs: number, waits = false): Received<unknown> {
    this.waits.push(waits);
    // The answer of a receive that waits comes later, and may be an error.
    if (waits && this.failing !== undefined) return this.failing() as never;
    return super.receive(max, visibilityMs);
  }

  /** Set while the next receive fails, after it has begun. */
  failing: (() => Promise<never>) | undefined;

  /** Hands over the first messages. */
  handOver(max: number, visibilityMs = 1_000): void {
    this.listener?.({ ...super.receive(max, visibilityMs), visibilityMs });
  }
}

/** Lets calls of a RemoteEngine end; each takes two turns. */
async function turns(): Promise<void> {
  for (let i = 0; i < 10; i++) await nextTurn();
}

function handing() {
  const clock = new VirtualClock();
  const engine = new HandingEngine("orders", Infinity, clock);
  const mailbox = new EngineMailbox<unknown, unknown, unknown>("orders", engine, identityCodec, {
    clock,
  });
  const wait = { waitTimeMs: 5_000, visibilityTimeoutMs: 1_000 };
  const bodies = (messages: readonly { readonly body: unknown }[]) =>
    messages.map(({ body }) => body);
  return { clock, engine, mailbox, wait, bodies };
}

describe("a handover of the engine", () => {
  it("is returned although the receive that it overtook fails", async () => {
    const { clock, engine, mailbox, wait, bodies } = handing();
    const { promise: broken, resolve: breakConnection } = deferred();
    engine.failing = () =>
      broken.then(() => {
        throw new MailboxConnectionError("the connection is lost");
      });
    const received = mailbox.receive(wait);
    await clock.settle();
    await mailbox.send("tea");
    engine.handOver(1);
    breakConnection();
    assertEquals(bodies(await received), ["tea"]);
    await assertRejects(() => mailbox.receive(wait), MailboxConnectionError);
  });

  it("is returned by a waiting receive, without another receive of the engine", async () => {
    const { clock, engine, mailbox, wait, bodies } = handing();
    const received = mailbox.receive({ ...wait, maxMessages: 2 });
    await clock.settle();
    assertEquals(engine.waits, [false, true]);
    await mailbox.sendMany(["tea", "milk", "salt"]);
    engine.handOver(2);
    assertEquals(bodies(await received), ["tea", "milk"]);
    assertEquals(engine.waits, [false, true]);
    assertEquals(engine.listener, undefined);
    const next = mailbox.receive(wait);
    assertEquals(bodies(await next), ["salt"]);
    assertEquals(
      engine.waits,
      [false, true, true],
      "after a wait, the next receive listens at once",
    );
  });

  it("goes to the receive that asked for its visibility timeout and for as many messages", async () => {
    const { clock, engine, mailbox, wait, bodies } = handing();
    const other = mailbox.receive({ ...wait, visibilityTimeoutMs: 2_000 });
    const one = mailbox.receive(wait);
    const two = mailbox.receive({ ...wait, maxMessages: 2 });
    await clock.settle();
    await mailbox.sendMany([1, 2, 3]);
    engine.handOver(2);
    assertEquals(bodies(await two), [1, 2]);
    engine.handOver(1, 2_000);
    assertEquals(bodies(await other), [3]);
    await mailbox.purge();
    await clock.advance(5_000);
    assertEquals(await one, []);
  });

  it("is released when no receive waits for it, and spends no attempt", async () => {
    const { clock, engine, mailbox, wait } = handing();
    const received = mailbox.receive(wait);
    await clock.settle();
    await mailbox.sendMany([1, 2]);
    engine.handOver(1, 7_000);
    engine.handOver(2); // more than the receive asked for
    assertEquals((await mailbox.stats()).waiting, 2);
    await clock.advance(5_000);
    const messages = [...await received, ...await mailbox.receive()];
    assertEquals(messages.map(({ deliveryCount }) => deliveryCount), [1, 1]);
  });

  it("is released when the receive is aborted or the mailbox closed before it is returned", async () => {
    for (const end of ["abort", "close"] as const) {
      const { clock, engine, mailbox, wait } = handing();
      const controller = new AbortController();
      const received = mailbox.receive({ ...wait, signal: controller.signal });
      await clock.settle();
      await mailbox.send("tea");
      engine.handOver(1);
      const ended = end === "abort" ? controller.abort() : mailbox.close();
      assertEquals(await received, [], end);
      await ended;
      assertEquals(await engine.stats().waiting, 1, end);
    }
  });

  it("comes before the messages of a receive that is under way, and the rest is released", async () => {
    const { clock, engine, wait, bodies } = handing();
    const remote = new RemoteEngine(engine);
    const mailbox = new EngineMailbox<unknown, unknown, unknown>("orders", remote, identityCodec, {
      clock,
    });
    const received = mailbox.receive(wait);
    await turns();
    await mailbox.sendMany([1, 2]);
    engine.listener!(); // the receive asks the engine
    engine.handOver(1); // and gets 1 before the answer, which has 2
    assertEquals(bodies(await received), [1]);
    await turns();
    assertEquals(bodies(await mailbox.receive()), [2]);
  });

  it("goes to a receive that sleeps, and not to one that calls the engine", async () => {
    const { clock, engine, wait, bodies } = handing();
    let releases = 0;
    const release = engine.release.bind(engine);
    engine.release = (deliveries) => (releases++, release(deliveries));
    const remote = new RemoteEngine(engine);
    const mailbox = new EngineMailbox<unknown, unknown, unknown>("orders", remote, identityCodec, {
      clock,
    });
    const [first, second] = [mailbox.receive(wait), mailbox.receive(wait)];
    await turns();
    await mailbox.sendMany([1, 2]);
    engine.listener!(); // the first receive asks the engine
    engine.handOver(1);
    assertEquals([bodies(await first), bodies(await second), releases], [[2], [1], 0]);
  });

  it("starts no handler when its lease has ended before the call that was under way", async () => {
    const { clock, engine } = handing();
    const remote = new RemoteEngine(engine);
    const receive = remote.receive.bind(remote);
    let answer = () => {};
    const answered = new Promise<void>((resolve) => answer = resolve);
    remote.receive = async (max, visibilityMs, waits) => {
      if (waits) await answered;
      return await receive(max, visibilityMs, waits);
    };
    const mailbox = new EngineMailbox<unknown, unknown, unknown>("orders", remote, identityCodec, {
      clock,
    });
    const handled: number[] = [];
    const handler = ({ deliveryCount }: { readonly deliveryCount: number }) =>
      void handled.push(deliveryCount);
    const loop = new MailboxLoop({ mailbox, handler, clock, log: silentLog });
    const running = loop.run({ visibilityTimeoutMs: 1_000 });
    await turns();
    await mailbox.send("tea");
    engine.handOver(1);
    await clock.advance(1_001); // the process is frozen meanwhile
    answer();
    await turns();
    await turns();
    assertEquals(handled, [2]);
    await loop.shutdown();
    await running;
  });
});

describe("EngineMailbox", () => {
  it("refuses deliverNow on an engine that has lookup and lacks the member", async () => {
    const engine = new MemoryEngine<unknown>("orders", Infinity, new VirtualClock());
    Object.defineProperty(engine, "deliverNow", { value: undefined });
    const mailbox = new EngineMailbox<string, unknown, unknown>("orders", engine, identityCodec);
    await mailbox.send("tea", { id: "order-7", delayMs: 1_000 });
    await assertRejects(
      () => mailbox.deliverNow("order-7"),
      InvalidParameterError,
      'Cannot use deliverNow on mailbox "orders": memory has the capability `lookup`, but not the ' +
        "member `deliverNow`. Add the member to the engine",
    );
    assertEquals((await mailbox.get("order-7"))?.state, "delayed");
  });

  it("listens to its engine only while a receive waits", async () => {
    const clock = new VirtualClock();
    const engine = new MemoryEngine<unknown>("orders", Infinity, clock);
    let listening = 0;
    const { onWake } = engine;
    engine.onWake = (listener) => {
      listening++;
      const stop = onWake.call(engine, listener);
      return () => {
        listening--;
        stop();
      };
    };
    const mailbox = new EngineMailbox<string, unknown, unknown>("orders", engine, identityCodec, {
      clock,
    });
    assertEquals(await mailbox.receive(), []);
    for (let round = 0; round < 3; round++) {
      assertEquals(listening, 0);
      const waits = [1_000, 2_000].map((waitTimeMs) => mailbox.receive({ waitTimeMs }));
      await clock.settle();
      assertEquals(listening, 1, "once for all waiting receives");
      await clock.advance(2_000);
      assertEquals(await Promise.all(waits), [[], []]);
    }
    assertEquals(listening, 0);
  });
});
