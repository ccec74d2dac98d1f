// What Deno KV stores: records, blocks of them, ids, and a whole queue.

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { idStateOf, idValue } from "../../src/engines/deno_kv/_keys.ts";
import type { KvEntry } from "../../src/engines/deno_kv/kv.ts";
import { KvDelivery } from "../../src/engines/deno_kv/_leases.ts";
import { DenoKvMailbox } from "../../src/engines/deno_kv/mod.ts";
import { newMessage, pack, unpackAll } from "../../src/engines/deno_kv/_record.ts";
import { silentLog } from "../../src/log.ts";
import type { Entry as EngineEntry } from "../../src/mailbox/engine.ts";
import { gate, openStore } from "../engines/deno_kv/_kv.ts";
import type { Target } from "./_fuzz.ts";
import { json, mutated, swapped } from "./_inputs.ts";
import { checkDelivery, entry } from "./_row_targets.ts";

type Entry = EngineEntry<string>;

const bytesOf = (text: string) => new TextEncoder().encode(text);

function recordOf(given: Entry, seq: number): Uint8Array {
  const place = { seq, nonce: "n", joined: given.key !== undefined, rememberedUntil: 0 };
  return pack(newMessage({ ...given, delayMs: 0 }, place, 1_000).message);
}

const good = (id: string, seq: number) => {
  return recordOf({ id, body: '"good"', dedup: false, delayMs: 0 }, seq);
};

/** A message in Deno KV is read as it was written. */
export const kvMessages: Target<Entry> = {
  name: "deno_kv_message",
  inputs: entry,
  holds: (given) => {
    const place = { seq: 5, nonce: "n", joined: given.key !== undefined, rememberedUntil: 0 };
    const { message } = newMessage({ ...given, delayMs: 0 }, place, 1_000);
    assertEquals(unpackAll(entryOf([pack(message)])), [message]);
  },
};

function entryOf(value: unknown): KvEntry {
  return { key: ["lastcall", "orders", "ready", 5, "n"], value, versionstamp: "1" };
}

const record = fc.tuple(entry, fc.nat({ max: 9 })).map(([it, seq]) => {
  return new TextDecoder().decode(recordOf(it, seq));
});
const head = record.map((it) => JSON.parse(it.slice(0, it.indexOf("\n"))));

/** A damaged record: a text is that of bytes. */
const damaged: fc.Arbitrary<unknown> = fc.oneof(
  mutated(record),
  swapped(head).map((it) => `${JSON.stringify(it)}\n"body"`),
  json.filter((it) => typeof it !== "string"),
);

const stored = (it: unknown) => typeof it === "string" ? bytesOf(it) : it;

/** A record that cannot be read does not affect those in its block. */
export const kvRecords = (unpack: typeof unpackAll = unpackAll): Target<unknown> => ({
  name: "deno_kv_record",
  inputs: damaged,
  holds: (given) => {
    const messages = unpack(entryOf([good("first", 5), stored(given), good("last", 10)]));
    assertEquals(messages.map(({ id }) => id).filter((_, i) => i !== 1), ["first", "last"]);
    const places = messages.map(({ seq, nonce }) => `${seq} ${nonce}`);
    assertEquals(new Set(places).size, 3, "each has a place of its own");
    for (const message of messages) {
      checkDelivery(new KvDelivery(message, [], "1", 1, undefined));
      // A receive stores it again: it stays what it is.
      const { seq, nonce } = message;
      const key = ["lastcall", "orders", "hidden", 7, seq, nonce];
      assertEquals(unpackAll({ key, value: [pack(message)], versionstamp: "2" }), [message]);
    }
  },
});

/** What is known about an id in Deno KV survives being stored. */
export const kvIds: Target<unknown> = {
  name: "deno_kv_id",
  inputs: json,
  holds: (value) => {
    const state = idStateOf({ key: [], value, versionstamp: null });
    assert(
      typeof state.isStored === "boolean" && Number.isFinite(state.until),
      `until ${state.until}`,
    );
    const again = idStateOf({
      key: [],
      value: idValue(state.isStored, state.until),
      versionstamp: null,
    });
    assertEquals(again, state);
  },
};

/** What replaces the values of a queue. */
interface Damage {
  readonly block: unknown;
  /** A ready message, a delayed one, one behind another with its key, or the checkpoint of a message. */
  readonly place: "ready" | "hidden" | "blocked" | "progress";
  /** Replaces all of the value, and not one record of the block. */
  readonly isWhole: boolean;
}

/** A mailbox in Deno KV delivers all other messages, and dead-letters a damaged one. */
export const kvQueues: Target<Damage> = {
  name: "deno_kv_queue",
  skip: gate.skip,
  cost: 5,
  inputs: fc.record({
    block: damaged,
    place: fc.constantFrom("ready", "hidden", "blocked", "progress"),
    isWhole: fc.boolean(),
  }),
  holds: async ({ block, place, isWhole }) => {
    using kv = await openStore(":memory:") as Awaited<ReturnType<typeof openStore>> & Disposable;
    const options = { name: "orders", log: silentLog };
    await using mailbox = await DenoKvMailbox.open<string>(kv, options);
    await mailbox.sendMany(ALL, (id) => ({
      id,
      ...(KEYED.includes(id) && { key: "k" }),
      ...(id === "delayed" && { delayMs: 1 }),
    }));
    if (place === "progress") {
      const [message] = await mailbox.receive();
      await message?.saveCheckpoint({ step: 1 });
      await message?.nack();
    }
    const affected = await damage(kv, place, isWhole, stored(block));
    const handled: string[] = [];
    for (let receives = 0; receives < 20; receives++) {
      for (const message of await mailbox.receive({ maxMessages: 3, waitTimeMs: 2 })) {
        handled.push(message.id);
        await message.acknowledge();
      }
    }
    for (const id of ALL.filter((it) => !affected.includes(it))) {
      assert(handled.includes(id), `${id} was not handled, only ${handled}`);
    }
    for (const { body } of await mailbox.deadLetters.peek!(10)) {
      assertEquals(body.reason, "unreadable");
    }
    const left = (await mailbox.peek(10)).map(({ id }) => id);
    assert(left.every((id) => affected.includes(id)), `${left} are left`);
  },
};

const KEYED = ["of a key", "behind it", "behind both"];
const ALL = ["first", "second", "last", ...KEYED, "delayed"];

/**
 * Damages a value of a queue, and returns the ids of the messages that are lost with it. Those behind a message
 * whose key cannot be read any more wait for it.
 */
async function damage(
  kv: Awaited<ReturnType<typeof openStore>>,
  place: Damage["place"],
  isWhole: boolean,
  record: unknown,
): Promise<readonly string[]> {
  for await (const entry of kv.list({ prefix: ["lastcall", "orders", place] })) {
    if (place === "progress") {
      await kv.atomic().set(entry.key, record).commit();
      return [];
    }
    const messages = unpackAll(entry);
    const records = [...entry.value as Uint8Array[]];
    const at = Math.min(1, records.length - 1);
    const changed = records.toSpliced(at, 1, record as Uint8Array);
    await kv.atomic().set(entry.key, isWhole ? record : changed).commit();
    const lost = messages.filter((_, i) => isWhole || i === at);
    const isFirst = place !== "blocked" && lost.some(({ key }) => key !== undefined);
    return [...lost.map(({ id }) => id), ...(isFirst ? KEYED : [])];
  }
  throw new Error(`nothing to damage: ${place}`);
}
