import type { Delivery, Entry } from "../../mailbox/engine.ts";
import { bytesOf, plainJson } from "./_text.ts";

/** The one attribute that is ours: what SQS does not know of a message. */
export const ATTRIBUTE = "lastcall";

/** What a message carries beside its body. */
interface Head {
  readonly id: string;
  readonly replyTo?: string;
  /** When it may be seen, by the sender's clock: SQS itself delays for a quarter of an hour at most. */
  readonly dueAt?: number;
}

/** A message as SQS hands it over. */
export interface ReceivedMessage {
  readonly MessageId: string;
  readonly ReceiptHandle: string;
  readonly Body?: string;
  readonly Attributes?: Readonly<Record<string, string>>;
  readonly MessageAttributes?: Readonly<Record<string, { readonly StringValue?: string }>>;
}

/** A message that was received, with a clock for its lease: SQS tells nobody that it has ended. */
export class SqsDelivery implements Delivery<string> {
  readonly messageId: string;
  readonly receipt: string;
  readonly id: string;
  readonly body: string;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly replyTo: string | undefined;
  readonly dueAt: number;
  checkpoint: string | undefined;
  /** When the request was made that took it, by the monotonic clock. */
  readonly takenAt: number;
  /** Never later than the service thinks. */
  leaseEndsAt: number;

  constructor(message: ReceivedMessage, takenAt: number, visibilityMs: number) {
    const { Attributes = {} } = message;
    const head = headOf(message);
    this.messageId = message.MessageId;
    this.receipt = message.ReceiptHandle;
    this.id = head.id;
    this.body = message.Body ?? "";
    this.replyTo = head.replyTo;
    this.dueAt = head.dueAt ?? 0;
    const received = Number(Attributes["ApproximateReceiveCount"] ?? 1);
    // The first time it was taken too early, and put off.
    this.deliveryCount = Math.max(1, head.dueAt === undefined ? received : received - 1);
    this.enqueuedAt = Number(Attributes["SentTimestamp"] ?? 0);
    this.takenAt = takenAt;
    this.leaseEndsAt = takenAt + visibilityMs;
  }

  /** It may have progress; the first delivery of a message has none. */
  get mayHaveProgress(): boolean {
    return this.deliveryCount > 1 || this.checkpoint !== undefined;
  }
}

/** What is sent for a message, and how much of a request that is. */
export function outgoing(
  { id, body, replyTo }: Pick<Entry<string>, "id" | "body" | "replyTo">,
  dueAt: number | undefined,
): { readonly input: object; readonly bytes: number } {
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  const head: Head = {
    id,
    ...(address === undefined ? {} : { replyTo: address }),
    ...(dueAt === undefined ? {} : { dueAt }),
  };
  const StringValue = plainJson(JSON.stringify(head));
  return {
    input: {
      MessageBody: body,
      MessageAttributes: { [ATTRIBUTE]: { DataType: "String", StringValue } },
    },
    bytes: bytesOf(body) + bytesOf(StringValue) + ATTRIBUTE.length + "String".length,
  };
}

/** A message of somebody else has the name that SQS gave it. */
function headOf({ MessageId, MessageAttributes }: ReceivedMessage): Head {
  try {
    const head = JSON.parse(MessageAttributes![ATTRIBUTE]!.StringValue!) as Head;
    if (typeof head.id === "string") return head;
  } catch {
    // not ours
  }
  return { id: MessageId };
}
