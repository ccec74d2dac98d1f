// What engines store and read in TypeScript: records, rows, notes, attributes and the names of queues.

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { encodePayload, NatsDelivery, parsePayload } from "../../src/engines/nats/_delivery.ts";
import { noteOf } from "../../src/engines/nats/_notes.ts";
import {
  parseHandle,
  receivedDeliveries,
  RedisDelivery,
} from "../../src/engines/redis/_delivery.ts";
import { notificationOf } from "../../src/engines/postgres/_notification.ts";
import { headOf } from "../../src/engines/redis/_head.ts";
import { SqsDelivery } from "../../src/engines/sqs/_message.ts";
import { arrayLiteral } from "../../src/engines/postgres/_statements.ts";
import { jsonCodec, openEnvelope } from "../../src/mailbox/codec.ts";
import type { Delivery, Entry as EngineEntry } from "../../src/mailbox/engine.ts";
import { syncOutcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { jsonText, mutated, sometimesLong, storable, swapped, text } from "./_inputs.ts";

type Entry = EngineEntry<string>;

/** What a mailbox stores in an engine. */
export const entry: fc.Arbitrary<Entry> = fc.record({
  id: storable.filter((it) => it !== ""),
  body: jsonText,
  meta: jsonText,
  checkpoint: jsonText,
  key: storable.filter((it) => it !== ""),
  priority: fc.nat({ max: 9 }),
  dedup: fc.boolean(),
  delayMs: fc.nat(),
}, { requiredKeys: ["id", "body", "dedup", "delayMs"] }) as fc.Arbitrary<Entry>;

const codec = jsonCodec();

/** Asserts that a mailbox can use a delivery: it opens it, or dead-letters it as unreadable. */
export function checkDelivery(delivery: Delivery<string>): void {
  const { id, body, meta, checkpoint, deliveryCount, receiptHandle } = delivery;
  assert(
    typeof id === "string" && typeof body === "string" && typeof receiptHandle === "string",
    `id ${id}`,
  );
  assert(meta === undefined || typeof meta === "string", `meta ${meta}`);
  assert(checkpoint === undefined || typeof checkpoint === "string", `checkpoint ${checkpoint}`);
  assert(Number.isInteger(deliveryCount), `delivery ${deliveryCount}`);
  syncOutcomeOf(() => codec.decode(openEnvelope(codec, delivery).body), {
    names: ["SerializationError"],
  });
}

/** The record of a message on Redis is read as it was written. */
export const redisRecords: Target<Entry> = {
  name: "redis_entry",
  inputs: entry,
  holds: (given) => {
    const delivery = new RedisDelivery("7", 1, `1000 ${headOf(given)}\n${given.body}`, null, "r");
    const { id, body, meta, checkpoint, dedup } = delivery;
    assertEquals({ id, body, dedup }, { id: given.id, body: given.body, dedup: given.dedup });
    assertEquals([meta, checkpoint], [given.meta, given.checkpoint]);
    assertEquals(parseHandle(delivery.receiptHandle), { seq: "7", receiveId: "r" });
  },
};

/** A record that cannot be read does not end the receive of the others. */
export const storedRedisRecords: Target<string> = {
  name: "redis_record",
  inputs: fc.oneof(
    mutated(entry.map((it) => `1000 ${headOf(it)}\n${it.body}`)),
    swapped(entry.map((it) => JSON.parse(headOf(it)))).map((it) => `1000 ${JSON.stringify(it)}\n1`),
  ),
  holds: (record) => {
    const good = `1000 ["good",1]\n"body"`;
    const reply = { seqs: ["1", "2", "3"], records: [good, record, good], redelivered: [] };
    const all = receivedDeliveries(reply, "r", 0);
    assertEquals([all[0]?.id, all[2]?.id], ["good", "good"]);
    checkDelivery(all[1]!);
  },
};

/** A payload on NATS is read as it was written. */
export const natsEntries: Target<Entry> = {
  name: "nats_entry",
  inputs: entry,
  holds: (given) => {
    const { id, body, meta, checkpoint, delayMs } = given;
    const read = parsePayload(new TextDecoder().decode(encodePayload(given)), 1);
    assertEquals(read, { id, body, meta, checkpoint, delayMs });
  },
};

const subjects = fc.tuple(
  fc.constantFrom(
    "$JS.ACK.S.c.1.5.7.1700000000000000000.0",
    "$JS.ACK.d.h.S.c.1.5.7.1700000000000000000.0.x",
  ),
  fc.nat(),
)
  .map(([it]) => it);

/** Any payload on NATS is a message: of this package, or of another program. */
export const storedNats: Target<{ readonly reply: string; readonly data: string }> = {
  name: "nats_payload",
  inputs: fc.record({
    reply: subjects,
    data: fc.oneof(
      mutated(entry.map((it) => new TextDecoder().decode(encodePayload(it)))),
      swapped(fc.tuple(text, fc.constant(null), fc.nat(), text, text)).map((it) =>
        `${JSON.stringify(it)}\n1`
      ),
    ),
  }),
  holds: ({ reply, data }) => {
    const delivery = new NatsDelivery({
      subject: "s",
      reply,
      data: new TextEncoder().encode(data),
    });
    checkDelivery(delivery);
    assert(
      Number.isInteger(delivery.delayMs) && delivery.delayMs >= 0,
      `delay ${delivery.delayMs}`,
    );
  },
};

/** A note on NATS has counts, or is none. */
export const natsNotes: Target<string> = {
  name: "nats_note",
  inputs: fc.oneof(
    mutated(jsonText),
    swapped(fc.tuple(text, fc.nat(), fc.nat(), text)).map((it) => JSON.stringify(it)),
  ),
  holds: (stored) => {
    const note = noteOf(stored)?.note;
    if (note === undefined) return;
    assert(Number.isInteger(note.uncounted) && Number.isInteger(note.releases), `note ${stored}`);
    assert(note.checkpoint === undefined || typeof note.checkpoint === "string");
  },
};

/** Any message on SQS is a message: of this package, or of another program. */
export const sqsMessages: Target<unknown> = {
  name: "sqs_message",
  inputs: fc.record({
    Body: text,
    Attributes: fc.dictionary(
      fc.constantFrom("ApproximateReceiveCount", "SentTimestamp", "SequenceNumber"),
      fc.nat().map(String),
    ),
    head: fc.oneof(
      mutated(jsonText),
      swapped(
        fc.record({
          id: text,
          dueAt: fc.nat(),
          quoted: fc.subarray(["body", "checkpoint"]),
          replyTo: text,
        }, { requiredKeys: ["id"] }),
      )
        .map((it) => JSON.stringify(it)),
    ),
    meta: text,
    checkpoint: text,
  }, { requiredKeys: ["Attributes"] }),
  holds: (given) => {
    const { head, meta, checkpoint, ...rest } = given as Record<string, never>;
    const value = (StringValue: string | undefined) =>
      StringValue === undefined ? {} : { StringValue };
    const delivery = new SqsDelivery(
      {
        ...{ MessageId: "m", ReceiptHandle: "r", ...rest },
        MessageAttributes: {
          ...(head !== undefined && { lastcall: value(head) }),
          ...(meta !== undefined && { "lastcall-meta": value(meta) }),
          ...(checkpoint !== undefined && { "lastcall-checkpoint": value(checkpoint) }),
        },
      },
      0,
      1_000,
    );
    checkDelivery(delivery);
    assert(Number.isFinite(delivery.dueAt), `due at ${delivery.dueAt}`);
  },
};

/** A notification of PostgreSQL wakes a queue, cancels a message, or is ignored. */
export const notifications: Target<string> = {
  name: "postgres_notification",
  inputs: sometimesLong(
    mutated(fc.constantFrom("s orders", "s orders 1/2 id with spaces", "s  2/2 ")),
    "s orders ",
  ),
  holds: (payload) => {
    const { sender, queue, part } = notificationOf(payload);
    assert(!/\s/.test(sender) && !/\s/.test(queue));
    assert(
      part === undefined || part.index >= 1 && part.index <= part.count && part.count <= 1_000,
    );
  },
};

/** A list of texts for PostgreSQL has each text once, quoted. */
export const arrays: Target<readonly string[]> = {
  name: "postgres_array",
  inputs: fc.array(text, { maxLength: 4 }),
  holds: (texts) => {
    const literal = arrayLiteral(texts);
    const items = [...literal.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, it = ""]) =>
      it.replace(/\\(.)/gs, "$1")
    );
    assertEquals([literal.at(0), items, literal.at(-1)], ["{", [...texts], "}"]);
  },
};
