/**
 * 16. Moving over from sqs-consumer. The queue stays where it is, and so may the handler.
 *
 *     node examples/16_from_sqs_consumer.ts
 *     MAILBOX_URL="sqs:orders?region=eu-west-1" node examples/16_from_sqs_consumer.ts
 *
 * | there                                      | here                                                   |
 * | ------------------------------------------ | ------------------------------------------------------ |
 * | `Consumer.create`, `consumer.start()`      | `new MailboxLoop`, `group.main()`                      |
 * | `queueUrl`, `region`, `sqs`                | `SqsMailbox.open(queueUrl, { region, client })`        |
 * | `handleMessage`, which returns the message | `handler`: whoever returns is done, whatever it is     |
 * | returning `undefined`, to leave it there   | `throw new RetryLaterError(…)`                         |
 * | `alwaysAcknowledge`                        | it is always so                                        |
 * | `shouldDeleteMessages: false`              | not here: what is done is deleted                      |
 * | `message.Body`, a text                     | `message.body`, read as JSON; `schema` checks it       |
 * | `batchSize`, 1 to 10                       | `concurrency`, 1 to 1 000                              |
 * | `handleMessageBatch`                       | not here: a message has a handler to itself            |
 * | `visibilityTimeout`, in seconds            | `visibilityTimeoutMs` of `main()`, 300 000 unless told |
 * | `heartbeatInterval`, none unless told      | `lease`: at least at every 40 % of that, unless told   |
 * | `waitTimeSeconds`                          | `waitTimeMs` of `main()`                               |
 * | `terminateVisibilityTimeout`               | `backoff`: a failed message has a growing pause        |
 * | the redrive policy of the queue            | `deadLetter`; that policy goes on working as well      |
 * | `handleMessageTimeout`                     | `AbortSignal.timeout` within the handler               |
 * | `consumer.stop()`                          | Ctrl+C, SIGTERM or `group.shutdown()`                  |
 * | `pollingCompleteWaitTimeMs`, 0 unless told | `shutdownTimeoutMs`, 30 000 unless told                |
 *
 * Nothing has to be moved. A message that was sent before is read as well, as long as it is JSON. During
 * the deploy old and new consumers share the queue, and SQS gives each message to one of them.
 */

import process from "node:process";
import { type Handler, LoopGroup, MailboxLoop, openMailbox, RetryLaterError } from "../mod.ts";

/** The part of a message of SQS that handlers look at. */
interface OldMessage {
  readonly MessageId?: string;
  readonly Body?: string;
  readonly ReceiptHandle?: string;
  readonly Attributes?: Readonly<Record<string, string>>;
}

/** As it was. The oven is cold at first, so that a cake is left on the queue once. */
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

/** The bridge: lets a loop call a handler that was written for sqs-consumer. */
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

// One URL for where messages are, so that a laptop needs no cloud.
const orders = await openMailbox<unknown>(process.env["MAILBOX_URL"] ?? "memory:orders");
if (process.env["MAILBOX_URL"] === undefined) {
  await orders.sendMany([{ item: "tea" }, { item: "cake" }]);
}

const consumer = new MailboxLoop({
  name: "orders",
  mailbox: orders,
  concurrency: 10,
  deadLetter: { maxDeliveries: 5 }, // fewer than `maxReceiveCount` of the queue, or SQS is first
  handler: fromConsumer(handleMessage),
});

const group = new LoopGroup([consumer], {
  shutdownTimeoutMs: 10_000,
  resources: [{ name: "queue", stop: () => orders.close() }],
});
console.log("Press Ctrl+C when you have seen enough.");
await group.main({ visibilityTimeoutMs: 60_000, waitTimeMs: 20_000 });
