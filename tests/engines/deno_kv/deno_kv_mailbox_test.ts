import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { DenoKvMailbox, type Kv } from "../../../src/engines/deno_kv/mod.ts";
import { openMailbox } from "../../../src/engines/open_mailbox.ts";
import { silentLog } from "../../../src/log.ts";
import {
  InvalidParameterError,
  MailboxConnectionError,
  MailboxFullError,
} from "../../../src/mailbox/errors.ts";
import { Child, runtimeName } from "../../signals/_child.ts";
import { gate, openForTest, openStore, TempFolder } from "./_kv.ts";

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Returns all keys of a store, without their common prefix and those of processes (see owners_test.ts). */
async function keysOf(path: string): Promise<string[]> {
  const kv = await openStore(path);
  const keys: string[] = [];
  for await (const { key } of kv.list({ prefix: ["lastcall"] })) {
    if (key[2] !== "owner") keys.push(key.slice(1).join(" "));
  }
  kv.close();
  return keys;
}

describe("DenoKvMailbox without Deno KV", () => {
  it(
    "open reports that another runtime has no Deno KV",
    { skip: runtimeName === "deno" },
    async () => {
      const open = () => DenoKvMailbox.open("./jobs.kv");
      await assertRejects(open, MailboxConnectionError, "needs Deno, and this is another runtime");
    },
  );

  it("open names the flag that Deno needs", { skip: runtimeName !== "deno" }, async () => {
    const fixture = "../../engines/deno_kv/fixtures/without_flag";
    await using child = Child.start(fixture, { runFlags: ["run", "-A"] });
    assertStringIncludes((await child.exit()).stdout, "needs the flag --unstable-kv");
  });
});

describe("DenoKvMailbox", gate, () => {
  it("open refuses a file that is not a store, and does not change it", async () => {
    using folder = new TempFolder();
    const path = folder.file("notes.txt");
    const text = "these are notes, and no store of anything ".repeat(100);
    writeFileSync(path, text);
    const error = await assertRejects(() => DenoKvMailbox.open(path), MailboxConnectionError);
    assertStringIncludes(error.message, "notes.txt");
    assertStringIncludes(error.message, "not a database");
    assertEquals(readFileSync(path, "utf8"), text);
    const nowhere = () => DenoKvMailbox.open(folder.file("no/such/folder.kv"));
    await assertRejects(nowhere, MailboxConnectionError, "cannot be opened");
  });

  it("errors contain no secrets of a URL", async () => {
    const open = () => DenoKvMailbox.open("http://me:very-secret@127.0.0.1:1/very-secret");
    const error = await assertRejects(open, MailboxConnectionError);
    assert(!error.message.includes("very-secret"), error.message);
  });

  const bad: readonly (readonly [what: string, place: unknown, said: string])[] = [
    ["an empty path", "", 'got ""'],
    ["an object that is not a store", { get() {} }, "the result of Deno.openKv"],
  ];
  for (const [what, place, said] of bad) {
    it(`open refuses ${what}`, async () => {
      const open = () => DenoKvMailbox.open(place as string);
      await assertRejects(open, InvalidParameterError, said);
    });
  }

  it("open refuses an invalid name", async () => {
    using folder = new TempFolder();
    const open = () => DenoKvMailbox.open(folder.file("x.kv"), { name: "a b" });
    await assertRejects(open, TypeError, "Invalid mailbox name");
  });

  it("openMailbox opens a denokv: URL", async () => {
    using folder = new TempFolder();
    const path = folder.file("jobs.kv");
    await using mailbox = await openMailbox<number>(`denokv:${path}?queue=orders&maxSize=1`);
    assert(mailbox instanceof DenoKvMailbox && mailbox.name === "orders");
    await mailbox.send(1);
    await assertRejects(() => mailbox.send(2), MailboxFullError);
  });

  it("mailboxes share a passed store and leave it open", async () => {
    const kv = await openStore(":memory:");
    {
      await using orders = await DenoKvMailbox.open<string>(kv, { name: "orders" });
      await using mails = await DenoKvMailbox.open<string>(kv, { name: "mails" });
      await orders.send("tea");
      assertEquals(await mails.receive(), []);
      assertEquals((await orders.receive())[0]?.body, "tea");
    }
    await kv.get(["still open"]);
    kv.close();
  });

  it("leaves no keys of settled messages", async () => {
    await using it = await openForTest({ name: "orders" });
    const { mailbox, path } = it;
    await mailbox.send("chosen", { id: "order-7" });
    await mailbox.sendMany(numbers(250));
    await mailbox.sendMany(numbers(3), { delayMs: 1 });
    const messages = await mailbox.receive({ maxMessages: 254, waitTimeMs: 1_000 });
    for (const message of messages.slice(0, 2)) await message.saveCheckpoint("half");
    await mailbox.extendMany!(messages, 400_000);
    await messages[0]!.deadLetter({ reason: "test" });
    assertEquals((await mailbox.acknowledgeMany!(messages.slice(1))).includes(false), false);
    const rest = await mailbox.receive({ maxMessages: 10 });
    await mailbox.acknowledgeMany!(rest);
    const [letter] = await mailbox.deadLetters.receive();
    await letter!.acknowledge();
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.send("purged", { id: "order-7" });
    const [received] = await mailbox.receive();
    await received!.saveCheckpoint("half");
    await mailbox.sendMany(numbers(250));
    assertEquals(await mailbox.purge(), 251);
    const counters = ["orders", "orders.dead"].flatMap((
      name,
    ) => [`${name} count`, `${name} wakes`]);
    assertEquals(await keysOf(path), counters);
  });

  it("the count is exact after concurrent calls", async () => {
    await using it = await openForTest();
    const sibling = await it.open();
    const mailboxes = [it.mailbox, sibling];
    await Promise.all(numbers(40).map((i) => mailboxes[i % 2]!.send(i)));
    const taken = await Promise.all(
      mailboxes.map((mailbox) => mailbox.receive({ maxMessages: 15 })),
    );
    await Promise.all([
      ...taken.map(([first, ...rest], i) => {
        const acknowledged = mailboxes[i]!.acknowledgeMany!(rest);
        return Promise.all([acknowledged, first?.nack()]);
      }),
      it.mailbox.sendMany(numbers(5)),
    ]);
    const acknowledged = taken.flat().length - taken.filter(({ length }) => length > 0).length;
    assertEquals(await sibling.approximateCount(), 45 - acknowledged);
  });

  it("concurrent sends never exceed maxSize", async () => {
    await using it = await openForTest({ maxSize: 10 });
    const sibling = await it.open();
    const sent = await Promise.allSettled(
      numbers(20).map((i) => (i % 2 === 0 ? it.mailbox : sibling).send(i)),
    );
    const refused = sent.filter((one) => one.status === "rejected");
    assertEquals(refused.length, 10);
    for (const { reason } of refused) assert(reason instanceof MailboxFullError, String(reason));
    assertEquals(await it.mailbox.approximateCount(), 10);
  });

  it("refuses messages and ids that are too large, and stores nothing", async () => {
    await using it = await openForTest();
    const { mailbox } = it;
    const large = () => mailbox.sendMany(numbers(20).map(() => "x".repeat(50_000)));
    await assertRejects(large, InvalidParameterError, "Send them in several");
    const long = () => mailbox.send("work", { id: "x".repeat(513) });
    await assertRejects(long, InvalidParameterError, "512 bytes");
    const tooLong = () => mailbox.send("work", { replyTo: "x".repeat(66_000) });
    await assertRejects(tooLong, InvalidParameterError, "and its headers have");
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("sends and dead-letters the largest bodies of any characters, also several at once", async () => {
    await using it = await openForTest();
    const bodies = [
      "x".repeat(57_342),
      "漢".repeat(19_114),
      "🍵".repeat(14_335),
      '"'.repeat(28_671),
    ];
    for (let i = 0; i < 5; i++) await it.mailbox.sendMany(bodies);
    const messages = await it.mailbox.receive({ maxMessages: 100 });
    assertEquals(messages.map(({ body }) => body), numbers(5).flatMap(() => bodies));
    assertEquals(new Set(await it.mailbox.extendMany!(messages, 400_000)), new Set([true]));
    for (const message of messages.slice(0, 4)) await message.deadLetter({ reason: "test" });
    assertEquals(new Set(await it.mailbox.releaseMany!(messages.slice(4))), new Set([true]));
    const letters = await it.mailbox.deadLetters.receive({ maxMessages: 10 });
    assertEquals(letters.map(({ body }) => body.body), bodies);
  });

  it("receives messages of another mailbox on the store without polling", async () => {
    await using it = await openForTest();
    const sibling = await it.open();
    const waiting = it.mailbox.receive({ waitTimeMs: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 50));
    const sentAt = performance.now();
    await sibling.send("work");
    assertEquals((await waiting)[0]?.body, "work");
    assert(performance.now() - sentAt < 10_000, "before the wait time passes");
  });

  it("receives the oldest message first after a release and after an expired lease", async () => {
    await using it = await openForTest();
    const { mailbox } = it;
    await mailbox.sendMany(["a", "b", "c"]);
    const [a] = await mailbox.receive();
    await mailbox.receive({ visibilityTimeoutMs: 1 });
    await a!.release();
    await new Promise((resolve) => setTimeout(resolve, 10));
    for (const body of ["a", "b", "c"]) assertEquals((await mailbox.receive())[0]?.body, body);
  });

  it("acknowledges a message that is being extended, also when the answers arrive in another order", async () => {
    const kv = await openStore(":memory:");
    let late = false;
    const wrapped: Kv = {
      ...{ get: (key) => kv.get(key), getMany: (keys) => kv.getMany(keys) },
      ...{
        list: (selector, options) => kv.list(selector, options),
        watch: (keys) => kv.watch(keys),
      },
      atomic() {
        const atomic = kv.atomic();
        const isLate = late;
        late = false;
        const commit = atomic.commit.bind(atomic);
        return Object.assign(atomic, {
          async commit() {
            const result = await commit();
            if (isLate) await new Promise((resolve) => setTimeout(resolve, 50));
            return result;
          },
        });
      },
      close: () => kv.close(),
    };
    await using mailbox = await DenoKvMailbox.open<string>(wrapped);
    await mailbox.send("work");
    const [message] = await mailbox.receive({ visibilityTimeoutMs: 60_000 });
    late = true;
    await Promise.all([message!.extendVisibility(120_000), message!.acknowledge()]);
    assertEquals(await mailbox.approximateCount(), 0);
    await mailbox.close();
    kv.close();
  });

  describe("with a store that fails", () => {
    /** Returns a store that can hang or answer late. */
    const hanging = async () => {
      const kv = await openStore(":memory:");
      const state = { hangs: false, late: false };
      const later = () => new Promise((resolve) => setTimeout(resolve, 100));
      const never = new Promise<never>(() => {});
      const wrapped: Kv = {
        get: async (key) => {
          if (state.late) await later();
          return await (state.hangs ? never : kv.get(key));
        },
        getMany: (keys) => state.hangs ? never : kv.getMany(keys),
        list: (selector, options) => kv.list(selector, options),
        atomic() {
          const atomic = kv.atomic();
          if (state.hangs) Object.assign(atomic, { commit: () => never });
          return atomic;
        },
        watch: (keys) => kv.watch(keys),
        close: () => kv.close(),
      };
      return { kv, wrapped, state };
    };

    it("a call without an answer fails at its timeout, and the next call is made", async () => {
      const { kv, wrapped, state } = await hanging();
      const options = { callTimeoutMs: 1_000, log: silentLog };
      await using mailbox = await DenoKvMailbox.open<string>(wrapped, options);
      await mailbox.send("work");
      const [message] = await mailbox.receive();
      state.hangs = true;
      await assertRejects(() => mailbox.send("more"), MailboxConnectionError, "1000 ms");
      await assertRejects(() => message!.acknowledge(), MailboxConnectionError, "1000 ms");
      state.hangs = false;
      await message!.acknowledge();
      assertEquals(await mailbox.approximateCount(), 0);
      await mailbox.close();
      kv.close();
    });

    it("a close does not wait for a store that hangs", async () => {
      const { kv, wrapped, state } = await hanging();
      const options = { callTimeoutMs: 600_000, log: silentLog };
      const mailbox = await DenoKvMailbox.open<string>(wrapped, options);
      const waiting = mailbox.receive({ waitTimeMs: 600_000 });
      state.hangs = true;
      mailbox.send("never").catch(() => {});
      await mailbox.close();
      assertEquals(await waiting, []);
      kv.close();
    });

    it("a close waits for pending calls of the dead letters, and stops their receives", async () => {
      const { kv, wrapped, state } = await hanging();
      const mailbox = await DenoKvMailbox.open<string>(wrapped, { log: silentLog });
      const waiting = mailbox.deadLetters.receive({ waitTimeMs: 600_000 });
      let counted = false;
      state.late = true;
      const counting = mailbox.deadLetters.approximateCount().then(() => counted = true);
      await mailbox.close();
      assertEquals([counted, await waiting], [true, []]);
      await counting;
      kv.close();
    });

    it("calls fail when the program has closed the store", async () => {
      const kv = await openStore(":memory:");
      await using mailbox = await DenoKvMailbox.open<string>(kv);
      kv.close();
      await assertRejects(() => mailbox.send("late"), MailboxConnectionError, "failed to send");
      await assertRejects(() => mailbox.receive(), MailboxConnectionError, "failed to receive");
    });
  });
});
