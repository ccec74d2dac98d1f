// The lines of keys on Redis: what is left of them, what wakes receivers, and what deleted keys do to them.

import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import type { Message } from "../../../src/mailbox/mailbox.ts";
import { eventually } from "../_servers.ts";
import { gate, look, openForTest, url } from "./_redis.ts";

/** No poll and a long wait: only a notification can wake in time. */
const BY_NOTIFICATION = { pollIntervalMs: 600_000, log: silentLog };

/** Sends bodies that begin with their key, such as `a1`. */
async function sendKeyed(mailbox: RedisMailbox<unknown>, ...bodies: string[]): Promise<void> {
  await mailbox.sendMany(bodies, (body) => ({ key: String(body)[0]! }));
}

const bodiesOf = (messages: readonly Message<unknown>[]) => messages.map(({ body }) => body);

/** Receives and acknowledges until no message is visible. */
async function workOff(mailbox: RedisMailbox<unknown>): Promise<unknown[]> {
  const bodies: unknown[] = [];
  for (;;) {
    const messages = await mailbox.receive({ maxMessages: 100 });
    if (messages.length === 0) return bodies;
    bodies.push(...bodiesOf(messages));
    await mailbox.acknowledgeMany(messages);
  }
}

describe("keys on Redis", gate, () => {
  it("nothing remains of keys without messages", async () => {
    const errors: string[] = [];
    const log = { ...silentLog, error: (text: string) => void errors.push(text) };
    await using it = await openForTest(url, { log });
    await using behind = look();
    const { mailbox, name } = it;
    for (let first = 0; first < 2_000; first += 500) {
      const bodies = Array.from({ length: 500 }, (_, i) => first + i);
      await mailbox.sendMany(bodies, (body) => ({ key: `customer ${body}`, priority: 1 }));
      await mailbox.sendMany(bodies, (body) => ({ key: `customer ${body}` }));
    }
    const sent = await mailbox.sendMany(["x1", "x2", "x3"], { key: "x" });
    for (const { id } of sent.slice(1)) await mailbox.cancel(id);
    await mailbox.send("keeps the queue from being empty", { delayMs: 600_000, id: "other" });
    await mailbox.send("late", { key: "late", delayMs: 600_000 });
    assertEquals((await workOff(mailbox)).length, 4_001);
    await behind.redis.zadd(`{lastcall:${name}}:due`, 1, "4005"); // as if the delay had ended
    const [late] = await mailbox.receive();
    assertEquals(late?.body, "late");
    assertEquals(await behind.redis.hgetall(`{lastcall:${name}}:traits`), { klate: "4005" });
    assertEquals(await behind.redis.exists(`{lastcall:${name}}:blocked`), 0);
    await late!.acknowledge();
    await mailbox.cancel("other");
    assertEquals(errors, []);
    await mailbox.close();
    assertEquals(await behind.redis.keys(`{lastcall:${name}}:[^c]*`), [`{lastcall:${name}}:meta`]);
  });

  it("a waiting receive is woken when its key is unblocked, in whatever way", async () => {
    await using it = await openForTest(url, BY_NOTIFICATION);
    await using behind = look();
    const { mailbox, name } = it;
    await using other = await RedisMailbox.open<unknown>(url, { name, ...BY_NOTIFICATION });
    const channel = `{lastcall:${name}}:wake`;
    const each =
      (act: (message: Message<unknown>) => Promise<unknown>) =>
      async (held: readonly Message<unknown>[]) => {
        for (const message of held) await act(message);
        return [];
      };
    /** Each unblocks two keys and returns what it received itself. */
    const ways: Record<string, (held: readonly Message<unknown>[]) => Promise<unknown[]>> = {
      acknowledge: each((message) => message.acknowledge()),
      "dead-letter": each((message) => message.deadLetter({ reason: "test" })),
      cancel: each((message) => other.cancel(message.id)),
      "acknowledge with a receive": async (held) => {
        const [, received] = await Promise.all([other.acknowledgeMany(held), other.receive()]);
        assertEquals(received.length, 1);
        return bodiesOf(received);
      },
    };
    for (const [way, unblock] of Object.entries(ways)) {
      await sendKeyed(other, "a1", "b1", "a2", "b2");
      const held = await other.receive({ maxMessages: 10 });
      const waiting = mailbox.receive({ waitTimeMs: 60_000 });
      await eventually(async () => {
        assertEquals(await behind.redis.pubsub("NUMSUB", channel), [channel, 1]);
      });
      const received = [...await unblock(held), ...bodiesOf(await waiting)];
      while (received.length < 2) {
        received.push(...bodiesOf(await mailbox.receive({ waitTimeMs: 60_000 })));
      }
      assertEquals(received.sort(), ["a2", "b2"], way);
      await mailbox.purge();
    }
  });

  it("cancelling a delayed message does not unblock its key", async () => {
    await using it = await openForTest(url);
    const { mailbox } = it;
    const { id } = await mailbox.send("late", { key: "a", delayMs: 600_000 });
    await sendKeyed(mailbox, "a1", "a2");
    const [a1] = await mailbox.receive();
    assertEquals(await mailbox.cancel(id), true);
    await sendKeyed(mailbox, "a3");
    assertEquals(await mailbox.receive(), []);
    await a1!.acknowledge();
    assertEquals(await workOff(mailbox), ["a2", "a3"]);
  });

  for (const part of ["ready", "returned", "due", "traits", "blocked"]) {
    it(`messages with keys are delivered after ${part} was deleted`, async () => {
      await using it = await openForTest(url, { log: silentLog });
      await using behind = look();
      const { mailbox, name } = it;
      await sendKeyed(mailbox, "a1", "a2", "a3", "b1", "b2");
      await mailbox.send("c1", { key: "c", priority: 5 });
      await mailbox.send("c2", { key: "c", priority: 9 });
      await mailbox.send("late", { key: "a", delayMs: 600_000 });
      const [c1, a1] = await mailbox.receive({ maxMessages: 2 });
      assertEquals([c1!.body, a1!.body], ["c1", "a1"]);
      await c1!.release();
      await behind.redis.del(`{lastcall:${name}}:${part}`);
      const kept = await mailbox.acknowledgeMany([a1!]);
      const expected = ["a2", "a3", "b1", "b2", "c1", "c2"];
      if (part === "due") expected.push("late"); // its delay is lost
      // Without its due time, the lease of a1 may be lost as well.
      const found = (await workOff(mailbox)).filter((body) => body !== "a1" || kept[0]);
      assertEquals(found.sort(), expected);
      await sendKeyed(mailbox, "a4");
      assertEquals(await workOff(mailbox), ["a4"], "no key is blocked");
    });
  }

  it("deleted keys do not break the order of keys when their messages are left", async () => {
    await using it = await openForTest(url, { log: silentLog });
    await using behind = look();
    const { mailbox, name } = it;
    await sendKeyed(mailbox, "a1", "a2", "b1", "a3", "b2");
    const [a1] = await mailbox.receive();
    await behind.redis.del(`{lastcall:${name}}:ready`, `{lastcall:${name}}:blocked`);
    assertEquals(bodiesOf(await mailbox.receive({ maxMessages: 10 })), ["b1"]);
    await a1!.acknowledge();
    assertEquals(await workOff(mailbox), ["a2", "a3"]);
  });

  it("a message whose body was deleted does not block its key", async () => {
    await using it = await openForTest(url, { log: silentLog });
    await using behind = look();
    const { mailbox, name } = it;
    await sendKeyed(mailbox, "a1", "a2", "b1", "b2");
    await mailbox.sendMany(["plain", "more"]);
    await behind.redis.hdel(`{lastcall:${name}}:messages`, "1");
    const messages = await mailbox.receive({ maxMessages: 4 });
    assertEquals(bodiesOf(messages).sort(), ["a2", "b1", "more", "plain"]);
    await mailbox.acknowledgeMany(messages);
    assertEquals(await workOff(mailbox), ["b2"]);
  });

  it("a key whose first message another version deleted is not blocked for ever", async () => {
    await using it = await openForTest(url, { log: silentLog });
    await using behind = look();
    const { mailbox, name } = it;
    await sendKeyed(mailbox, "a1", "a2", "a3");
    await mailbox.receive();
    for (const part of ["messages", "state"]) {
      await behind.redis.hdel(`{lastcall:${name}}:${part}`, "1");
    }
    await behind.redis.zrem(`{lastcall:${name}}:due`, "1");
    assertEquals(await workOff(mailbox), ["a2", "a3"]);
    await sendKeyed(mailbox, "a4");
    assertEquals(await workOff(mailbox), ["a4"]);
  });
});

describe("remembered ids on Redis", gate, () => {
  it("remembered ids are deleted after their time", async () => {
    await using it = await openForTest(url);
    await using behind = look();
    const { mailbox, name } = it;
    const times = `{lastcall:${name}}:times`;
    const ids = Array.from({ length: 50 }, (_, i) => `id-${i}`);
    await mailbox.sendMany(ids, (_, i) => ({ id: ids[i]!, dedupMs: 600_000 }));
    await workOff(mailbox);
    assertEquals(await behind.redis.zcard(times), 50);
    // Their time passes now: a busy machine may take longer for the lines above than any short time.
    for (const id of ids) await behind.redis.zadd(times, "XX", 1, `=${id}`);
    assertEquals((await mailbox.send("again", { id: "id-49", dedupMs: 600_000 })).stored, true);
    assertEquals(await behind.redis.zcard(times) < 50, true, "a send deletes a few");
    await workOff(mailbox);
    assertEquals(
      await behind.redis.zrange(times, 0, "-1"),
      ["=id-49"],
      "an empty receive deletes all",
    );
    assertEquals((await mailbox.send("again", { id: "id-49", dedupMs: 600_000 })).stored, false);
    await mailbox.purge();
    assertEquals(await behind.redis.exists(times), 0);
  });
});
