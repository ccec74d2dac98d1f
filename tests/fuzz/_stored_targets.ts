// Whole mailboxes, loops and redrives with stored data that cannot be read: it must not affect other messages.

import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { MAX_VISIBILITY_MS } from "../../src/engine.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { redrive } from "../../src/loops/redrive.ts";
import { SavedAnswers } from "../../src/loops/_saved_answers.ts";
import { type Codec, jsonCodec } from "../../src/mailbox/codec.ts";
import { EngineMailbox } from "../../src/mailbox/engine_mailbox.ts";
import { envelopeOf, plainEnvelope } from "../../src/mailbox/envelope.ts";
import { MemoryEngine } from "../../src/mailbox/memory_engine.ts";
import { QueueControl } from "../../src/mailbox/queue_control.ts";
import { VirtualClock } from "../../src/testing/mod.ts";
import { outcomeOf, syncOutcomeOf } from "./_decoding.ts";
import type { Target } from "./_fuzz.ts";
import { json, jsonText, mutated, swapped } from "./_inputs.ts";
import { options } from "./_message_targets.ts";

/** The encoded values of a message. */
interface Stored {
  readonly body: string;
  readonly meta?: string;
  readonly checkpoint?: string;
}

const meta = fc.oneof(
  mutated(options.map((it) => JSON.stringify(plainEnvelope(envelopeOf(it))))),
  swapped(options.map((it) => plainEnvelope(envelopeOf(it)))).map((it) => JSON.stringify(it)),
  jsonText,
);
const steps = fc.constant({
  "lastcall:steps": [{ name: "a", place: 1, result: 1 }],
  checkpoint: 5,
});
const checkpoint = fc.oneof(mutated(jsonText), swapped(steps).map((it) => JSON.stringify(it)));
const messages: fc.Arbitrary<readonly Stored[]> = fc.array(
  fc.record({ body: mutated(jsonText), meta, checkpoint }, { requiredKeys: ["body"] }),
  { minLength: 1, maxLength: 4 },
);

/** A mailbox of text in memory. */
function textMailbox(codec: Codec<string>) {
  const clock = new VirtualClock();
  const engine = new MemoryEngine<string>("orders", Infinity, clock);
  const shared = { clock, log: silentLog };
  return {
    clock,
    engine,
    mailbox: new EngineMailbox<unknown, unknown, string>("orders", engine, codec, shared),
  };
}

const entryOf = (id: string, { body, meta, checkpoint }: Stored) => ({
  ...{ id, body, meta, checkpoint, delayMs: 0, dedup: true },
});

const GOOD = ["first", "last"];

/** A loop handles all other messages, however a message was stored. */
export const loops = (codec: Codec<string> = jsonCodec()): Target<readonly Stored[]> => ({
  name: "stored_message",
  inputs: messages,
  cost: 3,
  holds: async (all) => {
    const { clock, engine, mailbox } = textMailbox(codec);
    const good = { body: '"good"' };
    const poisoned = all.map((it, i) => entryOf(`poisoned ${i}`, it));
    engine.send([entryOf("first", good), ...poisoned, entryOf("last", good)]);
    for (const { id } of await mailbox.peek(10)) assert(id !== undefined);
    const handled: string[] = [];
    const refusals = { names: ["SerializationError", "TypeError"], text: /^(The stored|Step) / };
    const loop = new MailboxLoop<unknown>({
      ...{ mailbox, clock, log: silentLog, concurrency: 3 },
      handler: async (message, { step, attempt }) => {
        const { id, headers, replyTo, backoff } = message;
        assert(Object.values(headers).every((it) => typeof it === "string"));
        assert(replyTo === undefined || typeof replyTo === "string");
        syncOutcomeOf(() => message.checkpoint, refusals);
        await outcomeOf(() => step("a", () => 1), refusals);
        if (attempt === 1 && backoff !== undefined) throw new Error("retried with its backoff");
        handled.push(id);
      },
    });
    await clock.until(loop.run({ untilEmpty: true }));
    await clock.advance(MAX_VISIBILITY_MS); // the longest backoff
    await clock.until(loop.run({ untilEmpty: true }));
    assertEquals(handled.filter((id) => GOOD.includes(id)).sort(), GOOD);
    assertEquals(await mailbox.approximateCount(), 0);
    for (const { body } of await mailbox.deadLetters.peek!(10)) {
      assert(["unreadable", "expired", "max_deliveries"].includes(body.reason), body.error);
      if (body.reason !== "unreadable") continue;
      const isOwn = /^SerializationError: The stored (body|meta) /.test(body.error ?? "");
      assert(isOwn, `${body.error}`);
    }
  },
});

/** A redrive sends all other messages, whatever a dead letter contains. */
export const redrives: Target<{ readonly letters: readonly Stored[]; readonly byIds: boolean }> = {
  name: "redrive",
  inputs: fc.record({
    letters: fc.array(
      fc.record({
        body: fc.oneof(
          mutated(jsonText),
          swapped(
            fc.tuple(options, json).map(([it, body]) => {
              return { id: "p", reason: "x", body, ...plainEnvelope(envelopeOf(it)) };
            }),
          ).map((it) => JSON.stringify(it)),
        ),
        meta,
      }, { requiredKeys: ["body"] }),
      { minLength: 1, maxLength: 3 },
    ),
    byIds: fc.boolean(),
  }),
  holds: async ({ letters, byIds }) => {
    const { clock, engine, mailbox } = textMailbox(jsonCodec());
    const good = (id: string) =>
      entryOf(id, { body: JSON.stringify({ id, body: "good", reason: "x", headers: {} }) });
    const dead = engine.deadLetters();
    dead.send([good("first"), ...letters.map((it, i) => entryOf(`p${i}`, it)), good("last")]);
    const ids = ["first", ...letters.map((_, i) => `p${i}`), "last"];
    await clock.until(redrive(mailbox, { clock, ...(byIds && { ids }) }));
    for (const id of GOOD) {
      assertEquals((await mailbox.get(id))?.body, "good", `${id} was redriven`);
    }
  },
};

/** What an earlier delivery saved is an answer, or is ignored. */
export const answers: Target<unknown> = {
  name: "saved_answer",
  inputs: swapped(fc.constant({
    progress: 1,
    unsent: { result: 1, times: 2 },
    refused: { result: 1, reason: { reason: "x" }, enqueuedAt: 5, deliveryCount: 1 },
    unavailable: 3,
  })),
  holds: (checkpoint) => {
    const message = { id: "a", enqueuedAt: 5, deliveryCount: 2, checkpoint };
    const { unsent, refused, unavailable } = new SavedAnswers<unknown>().recall(message as never);
    assert(unsent === undefined || Number.isInteger(unsent.times) && unsent.times >= 0);
    assert(refused === undefined || typeof refused.reason.reason === "string");
    assert(unavailable === undefined || Number.isInteger(unavailable) && unavailable >= 0);
  },
};

const control = fc.record({
  pausedUntil: fc.oneof(fc.nat(), fc.constant(null)),
  limit: fc.record({
    max: fc.integer({ min: 1, max: 100 }),
    perMs: fc.integer({ min: 1, max: 86_400_000 }),
  }),
  counts: fc.array(fc.nat({ max: 1_000 }), { maxLength: 6 }).map((it) =>
    it.slice(0, it.length & ~1)
  ),
}, { requiredKeys: [] });

/** A stored pause and limit always say how many messages may be delivered, and when more may be. */
export const controls = (
  make: (state: string) => QueueControl = QueueControl.parse,
): Target<string> => ({
  name: "queue_control",
  inputs: fc.oneof(
    mutated(control.map((it) => JSON.stringify(it))),
    swapped(control).map((it) => JSON.stringify(it)),
  ),
  holds: (state) => {
    const control = make(state);
    for (const now of [0, 1_000_000, 1.7e12]) {
      const { max, nextMs } = control.allowance(10, now);
      assert(Number.isInteger(max) && max >= 0 && max <= 10, `allows ${max} messages`);
      assert(max > 0 || nextMs > 0, `allows none, and more in ${nextMs} ms`);
      control.delivered(max, now);
    }
    const again = control.state;
    if (again !== undefined) assertEquals(make(JSON.stringify(again)).state, again);
  },
});
