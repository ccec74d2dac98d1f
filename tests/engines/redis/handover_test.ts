// Messages that are handed to a waiting worker in the step that stores them.

import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { RedisMailbox, type RedisMailboxOptions } from "../../../src/engines/redis/mod.ts";
import { deferred } from "../../../src/_promises.ts";
import { type Clock, systemClock } from "../../../src/clock.ts";
import {
  ARRIVAL_TIMEOUT_MS,
  Waiting,
  type WaitingOptions,
} from "../../../src/engines/redis/_waiting.ts";
import { WAIT_US } from "../../../src/engines/redis/scripts/handover.ts";
import { silentLog } from "../../../src/log.ts";
import { ReceiptHandleExpiredError } from "../../../src/mailbox/errors.ts";
import type { Message, ReceiveOptions } from "../../../src/mailbox/mailbox.ts";
import { VirtualClock } from "../../../src/testing/virtual_clock.ts";
import { BreakingProxy } from "../_proxy.ts";
import { eventually, PrivateServer, redis } from "../_servers.ts";
import { gate, look, openForTest, url } from "./_redis.ts";

/** No poll: what arrives was announced or handed over. */
const OPTIONS = { log: silentLog, pollIntervalMs: 600_000 };
const WAIT = { waitTimeMs: 30_000 };

/** A sender, the keys behind it, and workers on connections of their own. */
class Queue implements AsyncDisposable {
  readonly sender: RedisMailbox<unknown>;
  readonly name: string;
  readonly behind = look();
  readonly #opened: AsyncDisposable[] = [];

  private constructor(it: Awaited<ReturnType<typeof openForTest>>) {
    this.sender = it.mailbox;
    this.name = it.name;
    this.#opened.push(it, this.behind);
  }

  static async open(): Promise<Queue> {
    return new Queue(await openForTest(url, OPTIONS));
  }

  async worker(at: string = url, options: RedisMailboxOptions = {}) {
    const worker = await RedisMailbox.open<unknown>(at, {
      ...OPTIONS,
      ...options,
      name: this.name,
    });
    this.#opened.push(worker);
    return worker;
  }

  /** A worker whose answers and notifications go through functions of the test. */
  async #workerBehind(
    through: {
      readonly answer?: (answer: unknown, args: readonly unknown[]) => Promise<unknown>;
      readonly notify: (deliver: () => void) => void;
      readonly options?: { readonly enableAutoPipelining: boolean };
    },
    options: RedisMailboxOptions = {},
  ): Promise<RedisMailbox<unknown>> {
    const { redis } = this.behind;
    const client = {
      options: through.options,
      eval: redis.eval.bind(redis),
      async evalsha(...args: Parameters<typeof redis.evalsha>) {
        const answer = await redis.evalsha(...args);
        return through.answer === undefined ? answer : await through.answer(answer, args);
      },
      duplicate(options: object) {
        const subscriber = redis.duplicate(options);
        const on = subscriber.on.bind(subscriber);
        return Object.assign(subscriber, {
          on: (event: "message", listener: (...args: unknown[]) => void) =>
            on(event, (...args: unknown[]) => {
              if (event === "message") through.notify(() => listener(...args));
              else listener(...args);
            }),
        });
      },
    };
    const worker = await RedisMailbox.open<unknown>(client as never, {
      ...OPTIONS,
      ...options,
      name: this.name,
    });
    this.#opened.push(worker);
    return worker;
  }

  /** A worker whose client may send calls together, as ioredis with `enableAutoPipelining`. `onAnswer` may wait. */
  async pipeliningWorker(onAnswer: (args: readonly unknown[]) => Promise<void>) {
    return await this.#workerBehind({
      answer: async (answer, args) => (await onAnswer(args), answer),
      notify: (deliver) => deliver(),
      options: { enableAutoPipelining: true },
    });
  }

  /** A worker whose notifications arrive late. */
  lateWorker(ms: number, options: RedisMailboxOptions = {}): Promise<RedisMailbox<unknown>> {
    return this.#workerBehind({ notify: (deliver) => setTimeout(deliver, ms) }, options);
  }

  /** A worker that can be suspended: answers and notifications wait until `resume`, which sets its clock forward. */
  async suspendableWorker() {
    let suspension = Promise.resolve();
    let sleptMs = 0;
    let loses = false;
    const through = {
      async answer(answer: unknown, args: readonly unknown[]) {
        await suspension;
        if (!loses || !args.some((it) => HANDED_OVER.test(String(it)))) return answer;
        loses = false;
        throw new Error("the answer is lost");
      },
      // After the answers that waited.
      notify: (deliver: () => void) => void suspension.then(() => setImmediate(deliver)),
    };
    const clock = { ...systemClock, monotonic: () => performance.now() + sleptMs };
    const worker = await this.#workerBehind(through, { clock });
    return {
      worker,
      async suspend() {
        await worker.approximateCount(); // the answers of earlier calls have arrived
        const { promise, resolve } = deferred();
        suspension = promise;
        return (ms: number) => {
          sleptMs += ms;
          resolve();
        };
      },
      loseConfirmation: () => void (loses = true),
    };
  }

  key(end: string): string {
    return `{lastcall:${this.name}}:${end}`;
  }

  /** How many workers wait for a handover. */
  waiting(): Promise<number> {
    return this.behind.redis.zcard(this.key("waiting"));
  }

  /** Starts a receive. Resolves with its promise when messages can be handed to it. */
  async idle(worker: RedisMailbox<unknown>, options: ReceiveOptions = {}) {
    const before = await this.waiting();
    const received = worker.receive({ ...WAIT, ...options });
    await eventually(async () => assertEquals(await this.waiting(), before + 1));
    return { received };
  }

  /** A worker that others take for a living one, and that takes no message: as if it was frozen. */
  async frozenWorker(): Promise<void> {
    await this.behind.redis.zadd(this.key("waiting"), "9e15", "frozen");
    const subscriber = look();
    this.#opened.push(subscriber);
    await subscriber.redis.subscribe(this.key("owner:frozen"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const opened of this.#opened.reverse()) await opened[Symbol.asyncDispose]();
  }
}

/** A handover has a receive id that no receive has. */
const HANDED_OVER = /^\S+-0$/;

function isHandedOver({ receiptHandle }: Message<unknown>): boolean {
  return HANDED_OVER.test(receiptHandle);
}

function figures({ body, deliveryCount, leaseExpiries }: Message<unknown>): unknown[] {
  return [body, deliveryCount, leaseExpiries];
}

/** A clock that records how long timers are set for. */
function recordingClock(): { readonly clock: Clock; readonly delays: number[] } {
  const delays: number[] = [];
  const schedule: Clock["schedule"] = (ms, task) => {
    delays.push(ms);
    return systemClock.schedule(ms, task);
  };
  return { clock: { ...systemClock, schedule }, delays };
}

describe("handovers on Redis", gate, () => {
  it("a message is handed to an idle worker, and is an ordinary delivery", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    for (const settle of ["acknowledge", "nack", "release"] as const) {
      const { received } = await it.idle(worker);
      await it.sender.send("work", { headers: { a: "b" } });
      const [message] = await received;
      assert(isHandedOver(message!));
      assertEquals(figures(message!), ["work", 1, 0]);
      assertEquals(message!.headers, { a: "b" });
      assertEquals((await it.sender.stats()).inFlight, 1);
      assertEquals(await it.sender.receive(), []);
      await message![settle]();
      const again = settle === "acknowledge" ? [] : [["work", settle === "nack" ? 2 : 1, 0]];
      const left = await it.sender.receive();
      assertEquals(left.map(figures), again, settle);
      for (const one of left) await one.acknowledge();
    }
    assertEquals(await it.sender.approximateCount(), 0);
  });

  it("a lease of a handover lasts its visibility timeout, and expires as any other", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    const { received } = await it.idle(worker, { visibilityTimeoutMs: 200 });
    await it.sender.send("short");
    assertEquals((await received).map(figures), [["short", 1, 0]]);
    const [expired] = await it.sender.receive(WAIT);
    assertEquals(figures(expired!), ["short", 2, 1]);
    await expired!.acknowledge();

    const { received: long } = await it.idle(worker);
    await it.sender.send("long");
    const [message] = await long;
    const endsAt = performance.now() + 2_200; // longer than a lease that is not confirmed
    while (performance.now() < endsAt); // as a handler that blocks the event loop
    assertEquals(await it.sender.receive(), []);
    await message!.acknowledge();
    assertEquals(await it.sender.approximateCount(), 0);
  });

  it("a lease of a handover has begun when a client that sends calls together delivers the message", async () => {
    await using it = await Queue.open();
    const events: string[] = [];
    const worker = await it.pipeliningWorker(async (args) => {
      if (!args.some((it) => HANDED_OVER.test(String(it)))) return;
      await new Promise((done) => setTimeout(done, 20));
      events.push("confirmed");
    });
    const { received } = await it.idle(worker);
    const delivered = received.then(() => events.push("delivered"));
    await it.sender.send("work");
    await delivered;
    assertEquals(events, ["confirmed", "delivered"]);
  });

  it("a receive after a pause or a rate limit waits for no handover", async () => {
    await using it = await Queue.open();
    const { clock, delays } = recordingClock();
    const worker = await it.worker(url, { clock });
    await it.sender.pause();
    const received = worker.receive(WAIT);
    const sleeps = (ms: number) => ms > WAIT.waitTimeMs / 2 && ms <= WAIT.waitTimeMs;
    await eventually(() => Promise.resolve(assert(delays.some(sleeps))));
    await it.sender.send("work");
    await it.sender.resume();
    assertEquals((await received).map(figures), [["work", 1, 0]]);
    assert(!delays.includes(ARRIVAL_TIMEOUT_MS), `${delays}`);
  });

  it("a receive waits for a handover only as long as the process may have been chosen", async () => {
    const clock = new VirtualClock();
    const waiting = new Waiting({ link: { options: { clock } } } as unknown as WaitingOptions);
    const registeredUs = 5_000_000;
    waiting.onReceived(true, registeredUs);
    await waiting.arrival(registeredUs + WAIT_US + ARRIVAL_TIMEOUT_MS * 1_000);
    assertEquals(clock.pending, 0);
    const arrival = waiting.arrival(registeredUs + WAIT_US);
    await clock.settle();
    assertEquals(clock.pending, 1);
    await clock.until(arrival);
    assertEquals(clock.monotonic(), ARRIVAL_TIMEOUT_MS);
  });

  it("a worker whose channel the sender may not use receives at once", async () => {
    await using server = await PrivateServer.start(redis);
    await using behind = look(server.url);
    const rules = ["on", ">secret", "~*", "resetchannels", "&*:wake", "+@all"];
    await behind.redis.call("ACL", "SETUSER", "sender", ...rules);
    const name = "orders";
    const { clock, delays } = recordingClock();
    await using worker = await RedisMailbox.open<unknown>(server.url, { ...OPTIONS, name, clock });
    await using sender = await RedisMailbox.open<unknown>(
      server.url.replace("//", "//sender:secret@"),
      { ...OPTIONS, name },
    );
    const received = worker.receive(WAIT);
    await eventually(async () =>
      assertEquals(await behind.redis.zcard("{lastcall:orders}:waiting"), 1)
    );
    await sender.send("work");
    const [message] = await received;
    assertEquals([figures(message!), isHandedOver(message!)], [["work", 1, 0], false]);
    assert(!delays.includes(ARRIVAL_TIMEOUT_MS), `${delays}`);
  });

  it("a large message is not handed over, but received", async () => {
    await using it = await Queue.open();
    const { received } = await it.idle(await it.worker());
    const body = "x".repeat(70_000);
    await it.sender.send(body);
    const [message] = await received;
    assertEquals([message?.body, isHandedOver(message!)], [body, false]);
  });

  it("several idle workers share the messages of one send", async () => {
    await using it = await Queue.open();
    const workers = await Promise.all([it.worker(), it.worker(), it.worker()]);
    const idle = [];
    for (const worker of workers) idle.push(await it.idle(worker, { maxMessages: 10 }));
    await it.sender.sendMany([1, 2, 3]);
    const received = await Promise.all(idle.map(({ received }) => received));
    assertEquals(received.map((messages) => messages.map(isHandedOver)), [[true], [true], [true]]);
    assertEquals(received.flat().map(({ body }) => body).sort(), [1, 2, 3]);
  });

  it("one message is handed to one worker, and the others wait on", async () => {
    await using it = await Queue.open();
    const idle = [await it.idle(await it.worker()), await it.idle(await it.worker())];
    await it.sender.send("one");
    const [first] = await Promise.race(idle.map(({ received }) => received));
    assert(isHandedOver(first!));
    await it.sender.send("two");
    const both = (await Promise.all(idle.map(({ received }) => received))).flat();
    assertEquals(both.map(({ body }) => body).sort(), ["one", "two"]);
  });

  it("what is more than the idle workers is announced, in order", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    const { received } = await it.idle(worker, { maxMessages: 10 });
    await it.sender.sendMany([1, 2, 3]);
    assertEquals((await received).map(({ body }) => body), [1]);
    assertEquals((await worker.receive({ ...WAIT, maxMessages: 10 })).map(({ body }) => body), [
      2,
      3,
    ]);
  });

  it("the message with the highest priority is handed over first, and a blocked one is not", async () => {
    await using it = await Queue.open();
    const [one, two] = [await it.worker(), await it.worker()];
    const first = await it.idle(one);
    await it.sender.sendMany(["low", "high", "behind high"], (body) => {
      return body === "low" ? {} : { key: "customer", priority: 9 };
    });
    const [high] = await first.received;
    assertEquals([high?.body, isHandedOver(high!)], ["high", true]);
    const [low] = await two.receive(WAIT);
    assertEquals(low?.body, "low");

    const second = await it.idle(two);
    await it.sender.send("blocked", { key: "customer" });
    await it.sender.send("free", { key: "other" });
    const [free] = await second.received;
    assertEquals([free?.body, isHandedOver(free!)], ["free", true]);
    await high!.acknowledge();
    assertEquals((await two.receive(WAIT))[0]?.body, "behind high");
  });

  it("a message that was handed over comes before one that a receive finds meanwhile", async () => {
    await using it = await Queue.open();
    const worker = await it.lateWorker(30, { pollIntervalMs: 5 }); // it asks often
    const { received } = await it.idle(worker);
    await it.sender.sendMany([1, 2, 3]);
    assertEquals((await received).map(({ body }) => body), [1]);
    assertEquals((await worker.receive(WAIT)).map(figures), [[2, 1, 0]]);
  });

  it("a message on its way to a worker that stops waiting is with the others at once", async () => {
    await using it = await Queue.open();
    const worker = await it.lateWorker(100);
    const controller = new AbortController();
    const { received } = await it.idle(worker, { signal: controller.signal });
    await it.sender.send("work");
    assertEquals(await it.sender.receive(), []);
    controller.abort();
    assertEquals(await received, []);
    const [message] = await it.sender.receive();
    assertEquals(figures(message!), ["work", 1, 0]);
    // The notification arrives during the next wait, and is out of date.
    const { received: next } = await it.idle(worker);
    const other = worker.receive({ waitTimeMs: 300 });
    assertEquals(await other, []);
    await it.sender.send("next");
    assertEquals((await next).map(({ body }) => body), ["next"]);
    await message!.acknowledge();
  });

  it("a paused queue and one with a rate limit hand nothing over", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    const { received } = await it.idle(worker);
    await it.sender.pause();
    await it.sender.send("while paused");
    assertEquals((await it.sender.stats()).waiting, 1);
    await it.sender.resume();
    const [message] = await received;
    assertEquals([message?.body, isHandedOver(message!)], ["while paused", false]);

    await it.sender.rateLimit({ max: 1, perMs: 600_000 });
    const limited = worker.receive(WAIT);
    await it.sender.send("first");
    assertEquals((await limited).map(({ body }) => body), ["first"]);
    await it.sender.send("over the limit");
    assertEquals(await worker.receive({ waitTimeMs: 20 }), []);
    assertEquals((await it.sender.stats()).waiting, 1);
  });

  it("a delayed message is not handed over", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    const { received } = await it.idle(worker);
    await it.sender.send("delayed", { delayMs: 50 });
    const [message] = await received;
    assertEquals([message?.body, isHandedOver(message!)], ["delayed", false]);
  });

  it("a purge takes a message that was handed over, and the worker waits on", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    const purged = await it.idle(worker);
    await it.sender.send("purged");
    const [message] = await purged.received;
    const { received } = await it.idle(worker);
    assertEquals(await it.sender.purge(), 1);
    await assertRejects(() => message!.acknowledge(), ReceiptHandleExpiredError);
    await it.sender.send("after the purge");
    assertEquals((await received).map(isHandedOver), [true]);
  });

  it("a message for a dead worker goes to the next one", async () => {
    await using it = await Queue.open();
    const { received } = await it.idle(await it.worker());
    await it.behind.redis.zadd(it.key("waiting"), "9e15", "dead-1", "9e15", "dead-2");
    await it.sender.send("work");
    assertEquals((await received).map((it) => [...figures(it), isHandedOver(it)]), [
      ["work", 1, 0, true],
    ]);
    assertEquals(await it.waiting(), 0, "the dead are removed");
    await it.behind.redis.zadd(it.key("waiting"), "9e15", "dead-1");
    await it.sender.send("for all");
    assertEquals((await it.sender.receive()).map(figures), [["for all", 1, 0]]);
  });

  it("a worker that waits for long without a sign of life is not chosen", async () => {
    await using it = await Queue.open();
    await it.frozenWorker();
    await it.behind.redis.zadd(it.key("waiting"), "1", "frozen");
    await it.sender.send("work");
    assertEquals((await it.sender.receive()).map(figures), [["work", 1, 0]]);
    assertEquals(await it.sender.receive(), []);
    await it.idle(await it.worker());
    assertEquals(await it.behind.redis.zscore(it.key("waiting"), "frozen"), null);
  });

  it("a message that does not arrive is received by another worker, as its first delivery", async () => {
    await using it = await Queue.open();
    await it.frozenWorker();
    const startedAt = performance.now();
    await it.sender.send("work", { key: "customer", priority: 3 });
    assertEquals(await it.sender.receive(), []);
    const [message] = await it.sender.receive(WAIT);
    assertEquals(figures(message!), ["work", 1, 0]);
    const tookMs = performance.now() - startedAt;
    assert(tookMs > 1_900 && tookMs < 20_000, `${tookMs} ms`);
    await message!.nack();
    assertEquals((await it.sender.receive()).map(figures), [["work", 2, 0]]);
  });

  it("a suspended worker does not deliver a message that another one has handled meanwhile", async () => {
    await using it = await Queue.open();
    const { worker, suspend } = await it.suspendableWorker();
    const { received } = await it.idle(worker);
    const resume = await suspend();
    const counting = worker.approximateCount(); // its answer is the first thing that the worker sees
    await it.sender.send("work");
    await it.behind.redis.zadd(it.key("due"), 0, "1"); // its first lease ends
    const [message] = await it.sender.receive();
    assertEquals(figures(message!), ["work", 1, 0]);
    await message!.acknowledge();
    resume(5_000);
    await counting;
    await it.sender.send("next");
    assertEquals((await received).map(({ body }) => body), ["next"]);
  });

  it("a message that arrives late is delivered although the answer of its confirmation is lost", async () => {
    await using it = await Queue.open();
    const { worker, suspend, loseConfirmation } = await it.suspendableWorker();
    const { received } = await it.idle(worker);
    const resume = await suspend();
    await it.sender.send("work");
    loseConfirmation();
    resume(1_500);
    assertEquals((await received).map(figures), [["work", 1, 0]]);
  });

  it("a message has its lease although its confirmation is lost", async () => {
    await using it = await Queue.open();
    await using proxy = await BreakingProxy.before(Number(new URL(url).port || 6379));
    const worker = await it.worker(`redis://127.0.0.1:${proxy.port}`);
    const { received } = await it.idle(worker);
    proxy.onCommand = (text) => {
      // Its receive id is that of a handover. A receive may be under way, because a subscription has begun.
      if (!/evalsha/i.test(text) || !text.split("\r\n").some((it) => HANDED_OVER.test(it))) {
        return "pass";
      }
      proxy.onCommand = () => "pass";
      return "cut";
    };
    await it.sender.send("work");
    const [message] = await received;
    const confirmed = `1 0 ${message!.receiptHandle.slice("1-".length)}`;
    await eventually(async () => {
      assertEquals(await it.behind.redis.hget(it.key("state"), "1"), confirmed);
    });
    assertEquals(proxy.cuts, 1);
    const [, due] = await it.behind.redis.zrange(it.key("due"), "0", "-1", "WITHSCORES");
    assert(Number(due) > (Date.now() + 60_000) * 1_000, "it is the short one");
    await message!.acknowledge();
  });

  it("a message whose notification is cut off with the connection is received after the reconnect", async () => {
    await using it = await Queue.open();
    await using proxy = await BreakingProxy.before(Number(new URL(url).port || 6379));
    const worker = await it.worker(`redis://127.0.0.1:${proxy.port}`);
    for (const action of ["cut", "half"] as const) {
      const { received } = await it.idle(worker);
      proxy.onReply = (text) => {
        if (!text.includes("a long body that")) return "pass";
        proxy.onReply = () => "pass";
        return action;
      };
      await it.sender.send("a long body that the notification has");
      const [message] = await received;
      assertEquals(figures(message!).slice(1), [1, 0], action);
      await message!.acknowledge();
    }
    assertEquals(proxy.cuts, 2);
    const { received } = await it.idle(worker);
    await it.sender.send("after the reconnect");
    assertEquals((await received).map(isHandedOver), [true]);
  });

  it("a stop that races with a handover loses no message and spends no attempt", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    let handled = 0;
    for (let round = 0; round < 60; round++) {
      const controller = new AbortController();
      const { received } = await it.idle(worker, { signal: controller.signal });
      const sent = it.sender.send(round);
      for (let i = 0; i < round % 12; i++) await new Promise((done) => setImmediate(done));
      controller.abort();
      const [own] = await received;
      assertEquals(await it.waiting(), 0);
      await sent;
      if (own !== undefined) handled++;
      const [message] = own === undefined ? await it.sender.receive({ waitTimeMs: 1_000 }) : [own];
      assertEquals(message && figures(message), [round, 1, 0], `round ${round}`);
      await message!.acknowledge();
    }
    assertEquals(await it.sender.approximateCount(), 0, `${handled} were handled`);
  });

  it("a worker that stops waiting, or closes, is not chosen", async () => {
    await using it = await Queue.open();
    const worker = await it.worker();
    assertEquals(await worker.receive({ waitTimeMs: 30 }), []);
    await eventually(async () => assertEquals(await it.waiting(), 0));
    const { received } = await it.idle(worker);
    await worker.close();
    assertEquals(await received, []);
    assertEquals(await it.waiting(), 0);
    await it.sender.send("work");
    assertEquals((await it.sender.receive()).map(figures), [["work", 1, 0]]);
  });
});
