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
  readonly MessageId?: string;
  readonly Body?: string;
  readonly ReceiptHandle?: string;
  readonly Attributes?: Readonly<Record<string, string>>;
}

/** The unchanged handler. The oven is cold at first, so one cake stays in the queue once. */
function handleMessage(message: OldMessage): Promise<OldMessage | undefined> {
  const { item } = JSON.parse(message.Body!);
  const received = Number(message.Attributes?.["ApproximateReceiveCount"]);
  if (item === "cake" && ovenIsCold) {
    ovenIsCold = false;
    console.log(`${item}: later`);
    return Promise.resolve(undefined);
  }
  console.log(`${item}: done at delivery ${received}`);
  return Promise.resolve(message);
}
let ovenIsCold = true;

/** Lets a loop call a handler that was written for sqs-consumer. */
function fromConsumer(handle: typeof handleMessage): Handler<unknown> {
  return async ({ id, body, receiptHandle, deliveryCount, enqueuedAt }) => {
    const done = await handle({
      MessageId: id,
      Body: JSON.stringify(body),
      ReceiptHandle: receiptHandle,
      Attributes: {
        ApproximateReceiveCount: String(deliveryCount),
        SentTimestamp: String(enqueuedAt),
      },
    });
    if (done?.MessageId !== id) {
      throw new RetryLaterError(`${id} was left on the queue`, { delayMs: 0 });
    }
  };
}

// The URL selects the engine, so that the example runs without AWS.
const orders = await openMailbox<unknown>(process.env["MAILBOX_URL"] ?? "memory:orders");
if (process.env["MAILBOX_URL"] === undefined) {
  await orders.sendMany([{ item: "tea" }, { item: "cake" }]);
}

const consumer = new MailboxLoop({
  name: "orders",
  mailbox: orders,
  concurrency: 10,
  deadLetter: { maxDeliveries: 5 }, // fewer than `maxReceiveCount` of the queue; otherwise SQS moves messages first
  handler: fromConsumer(handleMessage),
});

const group = new LoopGroup([consumer], {
  shutdownTimeoutMs: 10_000,
  resources: [orders],
});
console.log("Press Ctrl+C when you have seen enough.");
await group.main({ visibilityTimeoutMs: 60_000, waitTimeMs: 20_000 });
