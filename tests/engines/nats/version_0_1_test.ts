// Messages, dead letters and consumers as version 0.1 stored them.

import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { redrive } from "../../../mod.ts";
import { namesOf } from "../../../src/engines/nats/_queue.ts";
import { connectTo, consumerOf, gate, look, openForTest } from "./_nats.ts";

const TRACE = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: "a=1",
};
const traced = (body: string) => `{"lastcall:trace":${JSON.stringify(TRACE)},"body":${body}}`;

/** Payloads that version 0.1 has stored: a line with id, reply address, delay and checkpoint, and the body. */
const PAYLOADS = [
  '["m1"]\n{"n":1}',
  '["m2","Antwört"]\n{"n":2}',
  `["m3"]\n${traced('{"n":3}')}`,
  `["m4","r"]\n${traced('{"n":4}')}`,
  '["m5","r",0,"{\\"at\\":1}"]\n{"n":5}',
  `["m6",null,50]\n${traced('{"n":6}')}`,
];

const DEAD_LETTER = '["own","ü"]\n{"id":"own","body":{"n":4},"reason":"test","error":"no",' +
  '"deliveryCount":1,"enqueuedAt":1794986457459,"deadAt":1794986457464,"replyTo":"ü",' +
  `"checkpoint":{"half":true},"trace":${JSON.stringify(TRACE)}}`;

/** Stores payloads in the stream of a mailbox, past the engine. */
async function store(mailbox: string, payloads: readonly string[]): Promise<void> {
  const connection = await connectTo();
  const { subjects } = namesOf(mailbox);
  for (const [i, payload] of payloads.entries()) {
    await connection.request(`${subjects}g-${i}`, payload);
  }
  await connection.close();
}

describe("a NATS mailbox that version 0.1 has made", gate, () => {
  it("delivers its messages with reply address, trace, delay and checkpoint", async () => {
    await using it = await openForTest();
    const { mailbox, name } = it;
    await store(name, PAYLOADS);
    const messages = [];
    while (messages.length < PAYLOADS.length) {
      messages.push(...await mailbox.receive({ maxMessages: 10, waitTimeMs: 20_000 }));
    }
    const fields = messages.sort((a, b) => a.id.localeCompare(b.id)).map((message) => {
      const { id, body, headers, replyTo, checkpoint, deliveryCount } = message;
      return [id, body, headers, replyTo, checkpoint, deliveryCount];
    });
    assertEquals(fields, [
      ["m1", { n: 1 }, {}, undefined, undefined, 1],
      ["m2", { n: 2 }, {}, "Antwört", undefined, 1],
      ["m3", { n: 3 }, TRACE, undefined, undefined, 1],
      ["m4", { n: 4 }, TRACE, "r", undefined, 1],
      ["m5", { n: 5 }, {}, "r", { at: 1 }, 1],
      ["m6", { n: 6 }, TRACE, undefined, undefined, 1],
    ]);
  });

  it("shows its dead letters and sends them again", async () => {
    await using it = await openForTest();
    const { mailbox, name } = it;
    assertEquals(await mailbox.deadLetters.approximateCount(), 0); // creates the stream
    await store(`${name}.dead`, [DEAD_LETTER]);
    const [letter] = await mailbox.deadLetters.receive({ waitTimeMs: 10_000 });
    assertEquals([letter?.body.reason, letter?.body.replyTo, letter?.body.headers], [
      "test",
      "ü",
      TRACE,
    ]);
    await letter!.release();
    await redrive(mailbox);
    const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
    const { id, body, headers, replyTo, checkpoint } = message!;
    assertEquals([id, body, headers, replyTo, checkpoint], [
      "own",
      { n: 4 },
      TRACE,
      "ü",
      { half: true },
    ]);
  });

  it("goes on with its consumer and the notes about its messages", async () => {
    await using it = await openForTest();
    await using behind = await look();
    const { mailbox, name } = it;
    const { stream, notes, noteSubjects } = namesOf(name);
    await behind.jsm.consumers.delete(stream, (await consumerOf(behind.jsm, name)).name);
    await behind.jsm.consumers.add(stream, {
      durable_name: "lastcall",
      ack_policy: "explicit",
      ack_wait: 30_000_000_000,
      max_ack_pending: -1,
    });
    await mailbox.send(1);
    const [message] = await mailbox.receive({ waitTimeMs: 10_000 });
    await message!.saveCheckpoint("half");
    await message!.release();
    const note = await behind.jsm.streams.getMessage(notes, { last_by_subj: `${noteSubjects}1` });
    assertEquals(note?.subject, `${noteSubjects}1`);
    const [again] = await mailbox.receive({ waitTimeMs: 10_000 });
    assertEquals([again?.deliveryCount, again?.checkpoint], [1, "half"]);
    await again!.acknowledge();
    assertEquals((await consumerOf(behind.jsm, name)).name, "lastcall");
  });
});
