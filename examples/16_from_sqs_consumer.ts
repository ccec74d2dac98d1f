/**
 * 16. Migrating from sqs-consumer. The queue stays, and the handler can stay. docs/migrating.md has the table
 * of options.
 *
 *     node examples/16_from_sqs_consumer.ts
 *     MAILBOX_URL="sqs:orders?region=eu-west-1" node examples/16_from_sqs_consumer.ts
 *
 * Messages that were sent before the migration are read as well, if their bodies are JSON. During the deploy,
 * old and new consumers share the queue, and SQS delivers each message to one of them.
 */

import process from "node:process";
import { type Handler, LoopGroup, MailboxLoop, openMailbox, RetryLaterError } from "../mod.ts";

/** The part of an SQS message that the handler uses. */
interface OldMessage {
  readonly MessageId: string;
  readonly Body: string;
}

/** The unchanged handler. It leaves the first cake in the queue, because the oven is cold. */
let ovenIsCold = true;
function handleMessage(message: OldMessage): Promise<OldMessage | undefined> {
  const { item } = JSON.parse(message.Body);
  const isLater = item === "cake" && ovenIsCold;
  if (isLater) ovenIsCold = false;
  console.log(`${item}: ${isLater ? "later" : "done"}`);
  return Promise.resolve(isLater ? undefined : message);
}

/** Calls a handler that was written for sqs-consumer. */
function fromConsumer(handle: typeof handleMessage): Handler<unknown> {
  return async ({ id, body }, { attempt }) => {
    const done = await handle({ MessageId: id, Body: JSON.stringify(body) });
    if (done === undefined) throw new RetryLaterError(`${id} stays in the queue`, { delayMs: 0 });
    console.log(`${id} is deleted at delivery ${attempt}`);
  };
}

// The URL selects the engine, so that the example runs without AWS.
const orders = await openMailbox<unknown>(process.env["MAILBOX_URL"] ?? "memory:orders");
if (process.env["MAILBOX_URL"] === undefined) {
  await orders.sendMany([{ item: "tea" }, { item: "cake" }], (_, i) => ({ id: `order-${i + 1}` }));
}

const consumer = new MailboxLoop({
  mailbox: orders,
  concurrency: 10,
  visibilityTimeoutMs: 60_000,
  deadLetter: { maxDeliveries: 5 }, // below `maxReceiveCount` of the queue, or SQS moves messages first
  handler: fromConsumer(handleMessage),
});

console.log("Press Ctrl+C when you have seen enough.");
await new LoopGroup([consumer], { shutdownTimeoutMs: 10_000, resources: [orders] }).main();
