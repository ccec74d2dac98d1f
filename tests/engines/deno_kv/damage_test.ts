import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { DenoKvMailbox, type Kv, type KvEntry } from "../../../src/engines/deno_kv/mod.ts";
import { SerializationError } from "../../../src/mailbox/errors.ts";
import { silentLog } from "../../../src/log.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { gate, openStore } from "./_kv.ts";

async function openQueue(): Promise<
  {
    readonly kv: Kv;
    readonly clock: VirtualClock;
    readonly mailbox: DenoKvMailbox<string>;
  } & AsyncDisposable
> {
  const kv = await openStore(":memory:");
  const clock = new VirtualClock();
  const mailbox = await DenoKvMailbox.open<string>(kv, { name: "orders", clock, log: silentLog });
  return {
    ...{ kv, clock, mailbox },
    async [Symbol.asyncDispose]() {
      await mailbox.close();
      kv.close();
    },
  };
}

async function change(
  kv: Kv,
  place: string,
  changed: (entry: KvEntry) => unknown,
): Promise<void> {
  for await (const entry of kv.list({ prefix: ["lastcall", "orders", place] })) {
    const value = changed(entry);
    if (value !== entry.value) await kv.atomic().set(entry.key, value).commit();
  }
}

async function handleAll(mailbox: DenoKvMailbox<string>): Promise<string[]> {
  const handled: string[] = [];
  for (let receives = 0; receives < 8; receives++) {
    for (const message of await mailbox.receive({ maxMessages: 2 })) {
      handled.push(message.body);
      await message.acknowledge();
    }
  }
  return handled;
}

async function unreadable(mailbox: DenoKvMailbox<string>): Promise<string[]> {
  const letters = await mailbox.deadLetters.peek!(10);
  return letters.map(({ body: { id, reason } }) => `${id}: ${reason}`);
}

describe("damaged data in Deno KV", gate, () => {
  it("a damaged record is dead-lettered, and those in its block are handled", async () => {
    await using it = await openQueue();
    const { kv, mailbox } = it;
    await mailbox.sendMany(["a", "b", "c"], (id) => ({ id }));
    await change(kv, "ready", ({ value }) => {
      return (value as Uint8Array[]).map((it, i) => i === 1 ? it.slice(5) : it);
    });
    assertEquals(await handleAll(mailbox), ["a", "c"]);
    assertEquals((await unreadable(mailbox)).map((it) => it.replace(/\d+/, "")), [
      "unreadable-: unreadable",
    ]);
    assertEquals([await mailbox.approximateCount(), await mailbox.peek(9)], [0, []]);
  });

  it("a message of which one field is damaged keeps its id and its key", async () => {
    await using it = await openQueue();
    const { kv, mailbox } = it;
    await mailbox.sendMany(["a", "b", "c"], (id) => ({ id, key: "k" }));
    await change(kv, "ready", ({ value }) => {
      const record = new TextDecoder().decode((value as Uint8Array[])[0]);
      const [head = "", body] = record.split("\n");
      const fields = JSON.parse(head);
      fields[6] = "many"; // the deliveries
      return [new TextEncoder().encode(`${JSON.stringify(fields)}\n${body}`)];
    });
    assertEquals(await handleAll(mailbox), ["b", "c"]);
    assertEquals(await unreadable(mailbox), ["a: unreadable"]);
  });

  for (const place of ["ready", "hidden", "blocked"]) {
    it(`a value of another form is one damaged message (${place})`, async () => {
      await using it = await openQueue();
      const { kv, clock, mailbox } = it;
      const options = { ready: {}, hidden: { delayMs: 5 }, blocked: { key: "k" } }[place];
      await mailbox.send("before", { key: "k" });
      const [before] = await mailbox.receive();
      await mailbox.send("damaged", options);
      await change(kv, place, ({ key, value }) => {
        const isLeased = place === "hidden" && Number(key[3]) > clock.now() + 5;
        return isLeased ? value : 5;
      });
      await mailbox.send("after");
      await before!.acknowledge();
      await clock.advance(5);
      assertEquals(await handleAll(mailbox), ["after"]);
      assertEquals((await unreadable(mailbox)).length, 1);
      assertEquals([await mailbox.approximateCount(), await mailbox.peek(9)], [0, []]);
    });
  }

  it("a damaged checkpoint affects only its message", async () => {
    await using it = await openQueue();
    const { kv, mailbox } = it;
    await mailbox.sendMany(["a", "b"]);
    const [message] = await mailbox.receive();
    await message!.saveCheckpoint({ step: 1 });
    await message!.nack();
    await change(kv, "progress", () => [1, 2]);
    const [a, b] = await mailbox.receive({ maxMessages: 2 });
    assertThrows(() => a!.checkpoint, SerializationError);
    assertEquals([a!.body, b!.body, b!.checkpoint], ["a", "b", undefined]);
  });
});

describe("two processes with Deno KV", gate, () => {
  it("messages that they send in the same millisecond keep their own checkpoints", async () => {
    await using it = await openQueue();
    const { kv, clock, mailbox } = it;
    await using other = await DenoKvMailbox.open<string>(kv, {
      ...{ name: "orders", clock, log: silentLog },
    });
    await mailbox.send("a");
    await other.send("b");
    for (const message of await mailbox.receive({ maxMessages: 2 })) {
      if (message.body === "a") await message.saveCheckpoint({ of: "a" });
      await message.nack();
    }
    const found = await mailbox.receive({ maxMessages: 2 });
    const checkpoints = Object.fromEntries(found.map((it) => [it.body, it.checkpoint]));
    assertEquals(checkpoints, { a: { of: "a" }, b: undefined });
  });

  it("a window of a fraction of a millisecond does not keep a message from being acknowledged", async () => {
    await using it = await openQueue();
    await it.mailbox.send("a", { id: "a", dedupMs: 60_000.5 });
    const [message] = await it.mailbox.receive();
    await message!.acknowledge();
    assertEquals(await it.mailbox.approximateCount(), 0);
  });
});
