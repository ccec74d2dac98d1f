// What the kept data of every earlier version contains, and that a mailbox of this version works it off.
// The heads of the files in `fixtures` tell how it was made.

import { assertEquals } from "@std/assert";
import type { Clock } from "../../src/clock.ts";
import { redrive } from "../../src/loops/redrive.ts";
import type { DeadLetter, Mailbox, Message } from "../../src/mailbox/mailbox.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319";
const trace = (n: number) => ({ traceparent: `00-${TRACE_ID}${n}-b7ad6b7169203331-01` });

/** Receives, acknowledges and redrives everything. All leases and delays of the data must have passed. */
export async function workOff(
  mailbox: Mailbox<unknown> & { readonly deadLetters: Mailbox<DeadLetter<unknown>> },
  clock: Clock,
): Promise<void> {
  assertEquals(await mailbox.approximateCount(), 8);
  const again = await mailbox.send({ dish: "tea again" }, { id: "own-1" });
  assertEquals(again.stored, false, "a chosen id is still known");

  const messages = await mailbox.receive({ maxMessages: 20 });
  assertEquals(messages.map(contentOf), [
    [{ dish: "soup", n: 1 }, 1, undefined, {}, undefined],
    [{ dish: "tea 🫖", n: 2 }, 2, "bills", {}, { poured: true }],
    [{ dish: "bread" }, 2, undefined, trace(3), undefined],
    [{ dish: "cake" }, 2, `bi"ll's`, trace(4), { slices: [1, 2] }],
    [{ dish: "rice" }, 2, undefined, {}, undefined],
    [{ "lastcall:trace": {}, body: "mine" }, 1, "bills", {}, undefined],
    [{ dish: "water" }, 1, undefined, trace(5), undefined],
    [{ dish: "later" }, 1, undefined, {}, undefined],
  ]);
  assertEquals(messages[1]?.id, "own-1");
  // A dead letter of this version keeps what the earlier version stored.
  const [cake] = messages.splice(3, 1);
  await cake!.deadLetter({ reason: "burnt" });
  for (const message of messages) await message.acknowledge();
  assertEquals(await mailbox.approximateCount(), 0);

  const letters = await mailbox.deadLetters.receive({ maxMessages: 20 });
  assertEquals(letters.map(({ body }) => letterContentOf(body)), [
    ["dead-1", "poison", undefined, "handler_error", undefined, {}, undefined],
    [
      ...["dead-2", { dish: "fish" }, undefined, "max_deliveries", "bills"],
      ...[{ ...trace(2), tracestate: "vendor=a" }, { boiled: 3 }],
    ],
    ["raw-1", undefined, "{ no JSON", "unreadable", undefined, {}, undefined],
    [cake!.id, { dish: "cake" }, undefined, "burnt", `bi"ll's`, trace(4), { slices: [1, 2] }],
  ]);
  assertEquals(letters[1]?.replyTo, "bills", "a dead letter can be replied to");
  for (const letter of letters) await letter.release();

  assertEquals(await redrive(mailbox, { clock }), 3);
  const redriven = await mailbox.receive({ maxMessages: 20 });
  assertEquals(redriven.map((message) => [message.id, ...contentOf(message)]), [
    ["dead-1", "poison", 1, undefined, {}, undefined],
    [
      ...["dead-2", { dish: "fish" }, 1, "bills"],
      ...[{ ...trace(2), tracestate: "vendor=a" }, { boiled: 3 }],
    ],
    [cake!.id, { dish: "cake" }, 1, `bi"ll's`, trace(4), { slices: [1, 2] }],
  ]);
  for (const message of redriven) await message.acknowledge();
  assertEquals(await mailbox.approximateCount(), 0);
  assertEquals(await mailbox.deadLetters.approximateCount(), 1, "the unreadable one stays");
}

function contentOf({ body, deliveryCount, replyTo, headers, checkpoint }: Message<unknown>) {
  return [body, deliveryCount, replyTo, headers, checkpoint];
}

function letterContentOf(letter: DeadLetter<unknown>) {
  const { id, body, raw, reason, replyTo, headers, checkpoint } = letter;
  return [id, body, raw, reason, replyTo, headers, checkpoint];
}
