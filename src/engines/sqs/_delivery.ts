import type { Delivery, Entry } from "../../mailbox/engine.ts";
import type { Outcome } from "./_batches.ts";
import { bytesOf, plainJson } from "./_text.ts";

/** What SQS does not know of a message, and the checkpoint that it was sent with. */
const HEAD = "lastcall";
const CHECKPOINT = "lastcall-checkpoint";

/** The attributes that are ours. */
export const ATTRIBUTES: readonly string[] = [HEAD, CHECKPOINT];

/** What a message carries beside its body. */
interface Head {
  readonly id: string;
  readonly replyTo?: string;
  /** When it may be seen, by the sender's clock: SQS itself delays for a quarter of an hour at most. */
  readonly dueAt?: number;
}

/** The ways in which a delivery ends. */
export type Settlement = "acknowledge" | "give back";

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
  /** How it was settled, also when other messages of the same call failed. */
  settledBy: Settlement | undefined;
  /** The settlement whose answer was lost: SQS may have done it. */
  unanswered: Settlement | undefined;
  /** Its dead letter is stored; only its removal is still to come. */
  letterStored = false;

  constructor(message: ReceivedMessage, takenAt: number, visibilityMs: number) {
    const { Attributes = {} } = message;
    const head = headOf(message);
    this.messageId = message.MessageId;
    this.receipt = message.ReceiptHandle;
    this.id = head.id;
    this.body = message.Body ?? "";
    this.replyTo = head.replyTo;
    this.dueAt = head.dueAt ?? 0;
    this.checkpoint = message.MessageAttributes?.[CHECKPOINT]?.StringValue;
    const received = Number(Attributes["ApproximateReceiveCount"] ?? 1);
    // The first time it was taken too early, and put off.
    this.deliveryCount = Math.max(1, head.dueAt === undefined ? received : received - 1);
    this.enqueuedAt = Number(Attributes["SentTimestamp"] ?? 0);
    this.takenAt = takenAt;
    this.leaseEndsAt = takenAt + visibilityMs;
  }

  /** The store may have a checkpoint of it: it was delivered before, or was sent with one. */
  get mayHaveProgress(): boolean {
    return this.deliveryCount > 1 || this.checkpoint !== undefined;
  }
}

/** What is sent for a message, and how much of a request that is. */
export function outgoing(
  { id, body, replyTo, checkpoint }: Omit<Entry<string>, "delayMs" | "dedup">,
  dueAt: number | undefined,
): { readonly input: object; readonly bytes: number } {
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  const head: Head = {
    id,
    ...(address === undefined ? {} : { replyTo: address }),
    ...(dueAt === undefined ? {} : { dueAt }),
  };
  const values = {
    [HEAD]: plainJson(JSON.stringify(head)),
    ...(checkpoint === undefined ? {} : { [CHECKPOINT]: checkpoint }),
  };
  const attributes = Object.entries(values).map(([name, StringValue]) => {
    return [name, { DataType: "String", StringValue }] as const;
  });
  const sizes = attributes.map(([name, { DataType, StringValue }]) => {
    return name.length + DataType.length + bytesOf(StringValue);
  });
  return {
    input: { MessageBody: body, MessageAttributes: Object.fromEntries(attributes) },
    bytes: sizes.reduce((sum, size) => sum + size, bytesOf(body)),
  };
}

/** A message of somebody else has the name that SQS gave it. */
function headOf({ MessageId, MessageAttributes }: ReceivedMessage): Head {
  try {
    const head = JSON.parse(MessageAttributes![HEAD]!.StringValue!) as Head;
    if (typeof head.id === "string") return head;
  } catch {
    // not ours
  }
  return { id: MessageId };
}

/**
 * Takes down what became of deliveries whose leases were good. SQS refuses a receipt that it knows no
 * more: while the lease lasts, that is the work of an earlier request of ours whose answer was lost.
 */
export function conclude(
  deliveries: readonly SqsDelivery[],
  outcomes: readonly Outcome[],
  how: Settlement,
): void {
  for (const [i, it] of deliveries.entries()) {
    const outcome = outcomes[i];
    if (outcome instanceof Error) it.unanswered = how;
    else if (outcome === undefined || it.unanswered === how) {
      it.settledBy = how;
      it.leaseEndsAt = -Infinity;
    }
  }
}
