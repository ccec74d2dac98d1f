import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { DenoKvMailbox, type Kv, type KvAtomic } from "../../../src/engines/deno_kv/mod.ts";
import { InvalidParameterError } from "../../../src/mailbox/errors.ts";
import { silentLog } from "../../../src/log.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { seed } from "../../_seed.ts";
import { gate, openStore } from "./_kv.ts";

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

/** A store in memory, which several mailboxes share. */
async function shared(): Promise<{ readonly kv: Kv } & AsyncDisposable> {
  const kv = await openStore(":memory:");
  return { kv, [Symbol.asyncDispose]: () => Promise.resolve(kv.close()) };
}

function open(kv: Kv, options = {}): Promise<DenoKvMailbox<unknown>> {
  return DenoKvMailbox.open<unknown>(kv, { name: "orders", log: silentLog, ...options });
}

/** Returns the keys in a store, without the counters and the keys of processes (see owners_test.ts). */
async function keysIn(kv: Kv): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of kv.list({ prefix: ["lastcall"] })) {
    if (!["count", "wakes", "owner"].includes(String(key[2]))) keys.push(key.join(" "));
  }
  return keys;
}

/** Returns a store whose changes a test sees and alters before they are committed. */
function watched(kv: Kv, onChange: (atomic: KvAtomic) => void): Kv {
  return Object.assign(Object.create(kv), {
    ...{ get: kv.get.bind(kv), getMany: kv.getMany.bind(kv) },
    ...{ list: kv.list.bind(kv), watch: kv.watch.bind(kv) },
    atomic() {
      const atomic = kv.atomic();
      onChange(atomic);
      return atomic;
    },
  });
}

/** Returns a store that runs `before` once, before the first commit after `arm`. */
function interrupted(kv: Kv, before: () => Promise<unknown>): { readonly kv: Kv; arm(): void } {
  let armed = false;
  const own = watched(kv, (atomic) => {
    const commit = atomic.commit.bind(atomic);
    atomic.commit = async () => {
      if (armed) {
        armed = false;
        await before();
      }
      return await commit();
    };
  });
  return { kv: own, arm: () => armed = true };
}

/** A generator of numbers from 0 to 1 that a seed determines. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9 >>> 0;
    return (state >>> 5) / 2 ** 27;
  };
}

describe("keys in Deno KV", gate, () => {
  it(`concurrent workers never hold two messages of a key, and keep its order (seed ${seed})`, async () => {
    await using it = await shared();
    const { kv } = it;
    const random = randomOf(seed);
    const workers = await Promise.all(numbers(4).map(() => open(kv)));
    const keys = ["a", "b", "c", undefined];
    const held = new Set<string>();
    const expected = new Map<string, number>();
    let left = 0;
    const sending = workers.map(async (mailbox, sender) => {
      for (let i = 0; i < 15; i++) {
        const count = 1 + Math.floor(random() * 4);
        const key = keys[Math.floor(random() * keys.length)];
        const delayMs = random() < 0.1 ? 5 : 0;
        const priority = random() < 0.3 ? Math.floor(random() * 10) : 0;
        // Only the messages of one sender have an order that the test knows.
        const line = key === undefined || delayMs > 0 ? undefined : `${key} of ${sender}`;
        const bodies = numbers(count).map((n) => ({ line, at: i * 10 + n }));
        left += count;
        await mailbox.sendMany(bodies, () => ({
          delayMs,
          priority,
          ...(key !== undefined && { key }),
        }));
      }
    });
    let isSent = false;
    const sent = Promise.all(sending).then(() => isSent = true);
    const working = workers.map(async (mailbox) => {
      for (const endsAt = Date.now() + 30_000; !isSent || left > 0;) {
        assert(Date.now() < endsAt, `${left} messages are not delivered`);
        const messages = await mailbox.receive({ maxMessages: 3, waitTimeMs: 20 });
        for (const { key } of messages) {
          if (key === undefined) continue;
          assert(!held.has(key), `two messages of ${key} are in flight`);
          held.add(key);
        }
        for (const message of messages) {
          const { key, body } = message;
          const { line, at } = body as { readonly line?: string; readonly at: number };
          const settle = random();
          if (settle < 0.8 && line !== undefined) {
            assert(at > (expected.get(line) ?? -1), `${line}: ${at} after ${expected.get(line)}`);
            expected.set(line, at);
          }
          if (key !== undefined) held.delete(key); // another worker may have the next one at once
          if (settle < 0.7) await message.acknowledge();
          else if (settle < 0.8) await message.deadLetter({ reason: "test" });
          else if (settle < 0.9) await message.release();
          else await message.nack({ delayMs: settle < 0.95 ? 0 : 3 });
          if (settle < 0.8) left--;
        }
      }
    });
    await Promise.all([sent, ...working]);
    assertEquals(await workers[0]!.approximateCount(), 0);
    await workers[0]!.deadLetters.purge();
    assertEquals(await keysIn(kv), [], "nothing of a key is left");
    for (const mailbox of workers) await mailbox.close();
  });

  it("a message that is sent while the one before it is acknowledged is delivered", async () => {
    await using it = await shared();
    await using other = await open(it.kv);
    const { kv, arm } = interrupted(it.kv, () => other.send("a2", { key: "a" }));
    await using mailbox = await open(kv);
    await mailbox.send("a1", { key: "a" });
    const [first] = await mailbox.receive();
    arm();
    await first!.acknowledge();
    assertEquals((await other.receive({ maxMessages: 10 })).map(({ body }) => body), ["a2"]);
  });

  it("a message is delivered when the one before it is acknowledged while it is sent", async () => {
    await using it = await shared();
    await using other = await open(it.kv);
    await other.send("a1", { key: "a" });
    const [first] = await other.receive();
    const { kv, arm } = interrupted(it.kv, () => first!.acknowledge());
    await using mailbox = await open(kv);
    arm();
    await mailbox.send("a2", { key: "a" });
    assertEquals((await other.receive({ maxMessages: 10 })).map(({ body }) => body), ["a2"]);
  });

  it("two messages that are the first of a key at the same time follow each other", async () => {
    await using it = await shared();
    await using other = await open(it.kv);
    const { kv, arm } = interrupted(it.kv, () => other.send("a1", { key: "a" }));
    await using mailbox = await open(kv);
    arm();
    await mailbox.send("a2", { key: "a" });
    for (const expected of [["a1"], ["a2"], []]) {
      const messages = await other.receive({ maxMessages: 10 });
      assertEquals(messages.map(({ body }) => body), expected);
      await other.acknowledgeMany(messages);
    }
  });

  it("a purge deletes long lines of many keys, while others send", async () => {
    await using it = await shared();
    await using mailbox = await open(it.kv);
    for (const _ of numbers(5)) {
      await mailbox.sendMany(numbers(90), (n) => ({ key: `key ${n}` }));
      await mailbox.sendMany(numbers(90), () => ({ key: "one" }));
    }
    await mailbox.receive({ maxMessages: 20 });
    let sent = 0;
    const sending = (async () => {
      for (; sent < 40; sent++) await mailbox.send("meanwhile", { key: "one" });
    })();
    const purged = await mailbox.purge();
    await sending;
    const rest = await mailbox.purge();
    assertEquals(purged + rest, 940);
    assertEquals(await keysIn(it.kv), []);
    await mailbox.sendMany([1, 2], () => ({ key: "one" }));
    assertEquals((await mailbox.receive({ maxMessages: 10 })).map(({ body }) => body), [1]);
  });

  it("the largest messages follow each other, with checkpoints and chosen ids", async () => {
    await using it = await shared();
    await using mailbox = await open(it.kv);
    const bodies = ["a", "b", "c"].map((text) => text.repeat(56_000));
    for (const [i, body] of bodies.entries()) {
      await mailbox.send(body, { key: "k".repeat(512), id: `${i}`, checkpoint: i });
    }
    for (const [i, body] of bodies.entries()) {
      const [message, ...others] = await mailbox.receive({ maxMessages: 10 });
      assertEquals([message?.body === body, message?.checkpoint, others], [true, i, []]);
      await message!.acknowledge();
    }
    assertEquals(await keysIn(it.kv), []);
  });

  it("many keys are unblocked by one acknowledgement, also with large messages", async () => {
    await using it = await shared();
    await using mailbox = await open(it.kv);
    for (const size of [1, 20_000]) {
      for (const n of numbers(60)) {
        await mailbox.sendMany([1, 2, 3], () => ({ key: `${n}`.padStart(512, "k") }));
        await mailbox.send("x".repeat(size), { key: `${n}`.padStart(512, "k") });
      }
      for (let round = 0; round < 4; round++) {
        const messages = await mailbox.receive({ maxMessages: 1_000 });
        assertEquals(messages.length, 60);
        assertEquals((await mailbox.acknowledgeMany(messages)).includes(false), false);
      }
    }
    assertEquals(await keysIn(it.kv), []);
  });

  it("a send with too many or too long ids and keys is refused, and nothing is stored", async () => {
    await using it = await shared();
    await using mailbox = await open(it.kv);
    const many = () => mailbox.sendMany(numbers(100), (n) => ({ key: `key ${n}` }));
    await assertRejects(many, InvalidParameterError, "100 different ids and keys");
    const ids = () => mailbox.sendMany(numbers(60), (n) => ({ key: `key ${n}`, id: `${n}` }));
    await assertRejects(ids, InvalidParameterError, "120 different ids and keys");
    const long = () => mailbox.send("work", { key: "k".repeat(513) });
    await assertRejects(long, InvalidParameterError, "Invalid key: expected at most 512 bytes");
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.sendMany(numbers(1_000), () => ({ key: "one" }));
    assertEquals((await mailbox.receive({ maxMessages: 10 })).length, 1);
  });

  it("many delayed messages of a key join its order, and one is delivered at a time", async () => {
    await using it = await shared();
    const clock = new VirtualClock();
    await using mailbox = await open(it.kv, { clock });
    await mailbox.sendMany(numbers(30), () => ({ key: "a", delayMs: 1_000 }));
    await mailbox.send("first", { key: "a" });
    await clock.advance(1_500);
    const seen: unknown[] = [];
    for (const _ of numbers(31)) {
      const [message, ...others] = await mailbox.receive({ maxMessages: 100 });
      assertEquals(others, []);
      seen.push(message!.body);
      await message!.acknowledge();
    }
    assertEquals(seen, ["first", ...numbers(30)]);
  });

  it("a message that is due joins its key in a receive that takes only messages before it", async () => {
    await using it = await shared();
    const clock = new VirtualClock();
    await using mailbox = await open(it.kv, { clock });
    await mailbox.send("other");
    await mailbox.send("due", { key: "a", delayMs: 1_000 });
    await clock.advance(1_500);
    assertEquals((await mailbox.receive()).map(({ body }) => body), ["other"]);
    await mailbox.send("later", { key: "a" });
    for (const expected of ["due", "later"]) {
      const [message, ...others] = await mailbox.receive({ maxMessages: 10 });
      assertEquals([message?.body, others], [expected, []]);
      await message!.acknowledge();
    }
  });

  it("a receive delivers when more messages are due behind another one than it considers", async () => {
    await using it = await shared();
    const clock = new VirtualClock();
    await using mailbox = await open(it.kv, { clock });
    await mailbox.send("first", { key: "a" });
    const [first] = await mailbox.receive({ visibilityTimeoutMs: 60_000 });
    for (const _ of numbers(5)) {
      await mailbox.sendMany(numbers(210), () => ({ key: "a", delayMs: 1_000 }));
    }
    await mailbox.send("free", { key: "b", delayMs: 1_001 });
    await clock.advance(1_500);
    const received = await mailbox.receive({ maxMessages: 10 });
    assertEquals(received.map(({ body }) => body), ["free"]);
    await first!.acknowledge();
    const next = await mailbox.receive({ maxMessages: 10 });
    assertEquals(next.map(({ body }) => body), [0]);
  });

  it("a receive delivers before all of very many due messages have joined their keys", async () => {
    await using it = await shared();
    const clock = new VirtualClock();
    await using mailbox = await open(it.kv, { clock });
    for (const part of numbers(5)) {
      const bodies = numbers(210).map((n) => part * 210 + n);
      await mailbox.sendMany(bodies, (body) => ({ key: `key ${body}`, delayMs: 1_000 }));
    }
    await clock.advance(1_500);
    const seen = await mailbox.receive();
    const hidden = (await keysIn(it.kv)).filter((key) => key.startsWith("lastcall orders hidden"));
    assertEquals([seen.length, hidden.length], [1, 1 + 50], "one is leased, 50 are left");
    while (seen.length < 1_050) {
      const messages = await mailbox.receive({ maxMessages: 100 });
      assert(messages.length > 0);
      seen.push(...messages);
    }
    assertEquals(seen.map(({ body }) => body), numbers(1_050));
  });
});

describe("remembered ids, pauses and queues in Deno KV", gate, () => {
  it("an id is remembered after its message is gone, and then forgotten", async () => {
    await using it = await shared();
    const clock = new VirtualClock();
    await using mailbox = await open(it.kv, { clock });
    const send = (dedupMs?: number) =>
      mailbox.send("work", { id: "order-7", ...(dedupMs !== undefined && { dedupMs }) });
    assert((await send(10_000)).stored);
    await (await mailbox.receive())[0]!.deadLetter({ reason: "test" });
    assertEquals((await send(1)).stored, false);
    assert((await send()).stored, "without dedupMs, only stored messages count");
    await (await mailbox.receive())[0]!.acknowledge();
    assertEquals((await send(1)).stored, false, "the second message did not shorten the time");
    await clock.advance(10_001);
    assert((await send(1)).stored);
    await clock.advance(2);
    await (await mailbox.receive())[0]!.acknowledge();
    await mailbox.deadLetters.purge();
    assertEquals(await keysIn(it.kv), []);
  });

  it("a remembered id has a time after which Deno KV deletes it", async () => {
    await using it = await shared();
    const expiries: (number | undefined)[] = [];
    const kv = watched(it.kv, (atomic) => {
      const set = atomic.set.bind(atomic);
      atomic.set = (key, value, options) => {
        if (key[2] === "id") expiries.push(options?.expireIn);
        return set(key, value, options);
      };
    });
    await using mailbox = await open(kv);
    await mailbox.send("work", { id: "order-7", dedupMs: 60_000 });
    await (await mailbox.receive())[0]!.acknowledge();
    const [stored, remembered] = expiries;
    assertEquals([expiries.length, stored], [2, undefined], "not while the message is stored");
    assert(remembered! > 50_000 && remembered! <= 60_000, `${remembered}`);
  });

  it("a pause stops a receive that has begun, and lasts", async () => {
    await using it = await shared();
    await using mailbox = await open(it.kv);
    await mailbox.send("work");
    const { kv, arm } = interrupted(it.kv, () => mailbox.pause());
    await using other = await open(kv);
    arm();
    assertEquals(await other.receive(), []);
    await mailbox.pause();
    await using later = await open(it.kv);
    assertEquals(await later.receive({ maxMessages: 10 }), []);
    const received = later.receive({ waitTimeMs: 60_000 });
    await mailbox.resume();
    assertEquals((await received).length, 1);
  });

  it("a mailbox lists the queues of its store, and requests leave none", async () => {
    await using it = await shared();
    await using mailbox = await open(it.kv);
    await using other = await open(it.kv, { name: "a/b" });
    await mailbox.send(1);
    await other.send(2, { priority: 9 });
    const [held] = await other.receive();
    await held!.deadLetter({ reason: "test" });
    const asking = open(it.kv);
    const asker = await asking;
    const reply = asker.request("ping");
    const [, request] = await mailbox.receive({ maxMessages: 10, waitTimeMs: 10_000 })
      .then(async (messages) => {
        return messages.length > 1
          ? messages
          : [...messages, ...await mailbox.receive({ waitTimeMs: 10_000 })];
      });
    assertEquals(request?.body, "ping");
    await request!.reply("pong");
    await request!.acknowledge();
    assertEquals(await reply, "pong");
    await asker.close();
    const queues = await mailbox.queues();
    assertEquals(
      queues.map(({ name, waiting, inFlight, dead }) => [name, waiting, inFlight, dead]),
      [
        ["a/b", 0, 0, 1],
        ["orders", 0, 1, 0],
      ],
    );
  });

  it("stats and peek tell the state of every message, also with priorities and keys", async () => {
    await using it = await shared();
    const clock = new VirtualClock();
    await using mailbox = await open(it.kv, { clock });
    await mailbox.sendMany(["a1", "a2"], () => ({ key: "a" }));
    await clock.advance(1_000);
    await mailbox.send("later", { delayMs: 40 * 86_400_000 });
    await mailbox.send("low");
    await mailbox.send("high", { priority: 9 });
    const [high, a1] = await mailbox.receive({ maxMessages: 2, visibilityTimeoutMs: 5_000 });
    assertEquals([high!.body, a1!.body], ["high", "a1"]);
    await high!.nack({ delayMs: 3_000 });
    assertEquals(await mailbox.stats(), {
      ...{ waiting: 2, delayed: 2, inFlight: 1, paused: false, oldestWaitingMs: 1_000, dead: 0 },
    });
    assertEquals((await mailbox.peek(10)).map(({ body, state }) => [body, state]), [
      ["a1", "inFlight"],
      ["a2", "waiting"],
      ["later", "delayed"],
      ["low", "waiting"],
      ["high", "delayed"],
    ]);
    assertEquals((await mailbox.peek(1)).map(({ body }) => body), ["a1"], "the oldest");
    await clock.advance(5_000);
    const { waiting, delayed, inFlight } = await mailbox.stats();
    assertEquals([waiting, delayed, inFlight], [4, 1, 0]);
  });
});
