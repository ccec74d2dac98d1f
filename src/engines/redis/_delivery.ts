import type { Delivery, Entry } from "../../mailbox/engine.ts";

/** Fields of one message in the reply of PEEK: number, deliveries, record, checkpoint. */
const PEEK_FIELDS = 4;

/**
 * A message that was received from Redis. All deliveries of one pull share a nonce.
 *
 * The server may have run a call whose reply was lost. A repetition of that call then fails, because the
 * receipt is used up. While the lease lasts, only this delivery can have settled the message, so the
 * repetition counts as successful.
 */
export class RedisDelivery implements Delivery<string> {
  readonly seq: string;
  readonly nonce: string;
  readonly id: string;
  /** True when the sender chose the id. */
  readonly dedup: boolean;
  readonly body: string;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly replyTo: string | undefined;
  readonly checkpoint: string | undefined;
  /** When the lease ends, in microseconds by the server's clock. */
  leaseEndsAtUs: number;
  /** The last call that failed; the server may have run it. */
  attempted: string | undefined;

  constructor(
    seq: string,
    deliveries: number,
    record: string,
    saved: string | null,
    nonce: string,
    leaseEndsAtUs = 0,
  ) {
    const headAt = record.indexOf(" ");
    const headEnd = record.indexOf("\n");
    const [id, dedup, replyTo, initial] = JSON.parse(record.slice(headAt + 1, headEnd)) as Head;
    this.seq = seq;
    this.nonce = nonce;
    this.id = id;
    this.dedup = dedup === 1;
    this.body = record.slice(headEnd + 1);
    this.deliveryCount = deliveries;
    this.enqueuedAt = Number(record.slice(0, headAt));
    this.replyTo = replyTo ?? undefined;
    this.checkpoint = saved ?? initial;
    this.leaseEndsAtUs = leaseEndsAtUs;
  }

  get receipt(): string {
    return `${this.seq}-${this.nonce}`;
  }

  /** The chosen id, which has to be freed when the message is removed. */
  get chosenId(): string {
    return chosenIdOf(this);
  }
}

/** Returns an id that the sender chose with a prefix, so that it is never empty; otherwise "". */
export function chosenIdOf({ id, dedup }: Pick<Entry<string>, "id" | "dedup">): string {
  return dedup ? `=${id}` : "";
}

type Head = readonly [id: string, dedup: 0 | 1, replyTo?: string | null, checkpoint?: string];

/** Returns the stored head of a message. A line break ends it, which JSON never contains. */
export function headOf(entry: Omit<Entry<string>, "body" | "delayMs">): string {
  const { id, dedup, replyTo, checkpoint } = entry;
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  const start = [id, dedup ? 1 : 0] as const;
  const head: Head = checkpoint !== undefined
    ? [...start, address ?? null, checkpoint]
    : address !== undefined
    ? [...start, address]
    : start;
  return JSON.stringify(head);
}

/** The messages in the reply of PULL. */
export interface PullReply {
  readonly seqs: readonly string[];
  readonly records: readonly string[];
  /** For each message that was delivered before: its index, deliveries, checkpoint. */
  readonly redelivered: readonly (number | string | null)[];
}

/** Returns the deliveries of a pull. `leaseEndsAtUs` is by the server's clock. */
export function pulledDeliveries(
  { seqs, records, redelivered }: PullReply,
  nonce: string,
  leaseEndsAtUs: number,
): RedisDelivery[] {
  const counts: number[] = [];
  const checkpoints: (string | null)[] = [];
  for (let i = 0; i < redelivered.length; i += 3) {
    const index = redelivered[i] as number;
    counts[index] = redelivered[i + 1] as number;
    checkpoints[index] = redelivered[i + 2] as string | null;
  }
  return seqs.map((seq, i) => {
    const count = counts[i] ?? 1;
    const checkpoint = checkpoints[i] ?? null;
    return new RedisDelivery(seq, count, records[i]!, checkpoint, nonce, leaseEndsAtUs);
  });
}

/** Returns the messages in the reply of PEEK. */
export function peekedDeliveries(reply: readonly unknown[]): RedisDelivery[] {
  const deliveries: RedisDelivery[] = [];
  for (let i = 2; i < reply.length; i += PEEK_FIELDS) {
    const [seq, count] = [reply[i] as string, reply[i + 1] as number];
    const [record, checkpoint] = [reply[i + 2] as string, reply[i + 3] as string | null];
    deliveries.push(new RedisDelivery(seq, count, record, checkpoint, ""));
  }
  return deliveries;
}

/** Encodes the receipts of deliveries for a script: for each pull its nonce and the message numbers. */
export function encodeReceipts(deliveries: readonly RedisDelivery[]): string {
  const pulls: string[][] = [];
  let nonce: string | undefined;
  for (const delivery of deliveries) {
    if (delivery.nonce !== nonce) pulls.push([nonce = delivery.nonce]);
    pulls[pulls.length - 1]!.push(delivery.seq);
  }
  return JSON.stringify(pulls);
}

/**
 * The result of a settling script: 1 when all receipts were valid, otherwise one number for each delivery.
 * 1: valid, 0: expired, 2: the message is gone.
 */
export type Settled = 1 | readonly number[] | null;

/** Calls that remove the message from the queue. */
const REMOVES: readonly string[] = ["acknowledge", "dead-letter"];
/** Calls that put the message back into the queue. */
const REQUEUES: readonly string[] = ["nack", "release"];

/** Returns true when this call settled the delivery, or an earlier attempt of the same call did. */
export function isSettled(
  call: string,
  settled: Settled,
  index: number,
  { attempted, leaseEndsAtUs }: RedisDelivery,
  nowUs: number,
): boolean {
  const result = settled === 1 ? 1 : settled?.[index];
  if (result === 1) return true;
  if (attempted !== call || nowUs >= leaseEndsAtUs) return false;
  return REMOVES.includes(call) ? result === 2 : REQUEUES.includes(call);
}

/** Records a failed call that the server may have run. */
export function markAttempted(call: string, deliveries: readonly RedisDelivery[]): void {
  for (const delivery of deliveries) delivery.attempted = call;
}
