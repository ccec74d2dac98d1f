import type { Delivery, Entry, MessageState } from "../../mailbox/engine.ts";
import { headOf, readHead, unreadable } from "./_head.ts";

/** Returns the index of a message, see `scripts/ids.ts`. */
export function indexOf({ id, dedup }: Pick<Entry<string>, "id" | "dedup">): string {
  if (dedup) return `=${id}`;
  const groups = new Groups();
  groups.isSame(id);
  return groups.index;
}

/** Returns the script arguments of messages that are sent: for each its index, options, head and body. */
export function sendArguments(entries: readonly Entry<string>[]): (string | number)[] {
  const groups = new Groups();
  const args: (string | number)[] = [];
  for (const entry of entries) {
    const { id, dedup, body } = entry;
    // A message in the same group as the one before has "".
    const index = dedup ? `=${id}` : groups.isSame(id) ? "" : groups.index;
    args.push(index, optionsOf(entry), headOf(entry), body);
  }
  return args;
}

/** The groups of generated ids: those with the same start whose final number is in the same range of 64. */
class Groups {
  #start: string | undefined;
  #range = 0;

  /** Returns whether an id is in the same group as the one before. Costs little when it is. */
  isSame(id: string): boolean {
    let end = id.length;
    let number = 0;
    for (let factor = 1; end > 0 && factor < 1_000_000_000; factor *= 10) {
      const digit = id.charCodeAt(end - 1) - 48;
      if (digit < 0 || digit > 9) break;
      number += digit * factor;
      end--;
    }
    const range = number >> 6;
    const start = this.#start;
    if (range === this.#range && end === start?.length && id.startsWith(start)) return true;
    this.#start = id.slice(0, end);
    this.#range = range;
    return false;
  }

  /** The index of the group of the last id. */
  get index(): string {
    return `#${this.#start}:${this.#range}`;
  }
}

/** Returns the options of a message as SEND expects them; most messages have none. */
function optionsOf(
  { delayMs, dedupMs = 0, priority = 0, key = "" }: Entry<string>,
): string | number {
  const line = key === "" ? "" : `k${key}`;
  if (dedupMs > 0 || priority > 0 || line !== "" && delayMs > 0) {
    return `${microseconds(delayMs)} ${microseconds(dedupMs)} ${priority} ${line}`;
  }
  return line === "" ? microseconds(delayMs) : line;
}

/** Rounds up, so that a lease or a delay is never shorter than requested. */
export function microseconds(ms: number): number {
  return Math.ceil(ms * 1_000);
}

/**
 * A message that was received from Redis. Its receipt handle is its number and the id of the receive, which
 * all deliveries of one receive share.
 *
 * The server may have run a call whose reply was lost. A repetition of that call then fails, because the
 * receipt handle is used up. While the lease lasts, only this delivery can have settled the message, so the
 * repetition counts as successful. That includes the message of a process that was taken for dead: it has been
 * returned, and when it is gone, another worker has finished it.
 */
export class RedisDelivery implements Delivery<string> {
  readonly seq: string;
  readonly receiveId: string;
  readonly id: string;
  /** True when the sender chose the id. */
  readonly dedup: boolean;
  readonly body: string;
  readonly meta: string | undefined;
  /** What is special of the message, if anything: `p` for a priority, and the line of its key. */
  readonly special: string | undefined;
  readonly deliveryCount: number;
  readonly leaseExpiries: number;
  readonly enqueuedAt: number;
  readonly checkpoint: string | undefined;
  /** Where the message is, if it was not received but looked at. */
  readonly state: MessageState | undefined;
  /** When the lease ends, in microseconds by the server's clock. */
  leaseEndsAtUs: number;
  /** The last call that failed; the server may have run it. */
  failedCall: string | undefined;

  constructor(
    seq: string,
    deliveryCount: number,
    record: string,
    savedCheckpoint: string | null,
    receiveId: string,
    leaseEndsAtUs = 0,
    leaseExpiries = 0,
    state?: MessageState,
  ) {
    const sentAtEnd = record.indexOf(" ");
    const headEnd = record.indexOf("\n");
    const head = readHead(record.slice(sentAtEnd + 1, headEnd)) ?? unreadable(seq);
    const [id, dedup, replyTo, checkpoint, meta, key, priority] = head;
    this.seq = seq;
    this.receiveId = receiveId;
    this.id = id;
    this.dedup = dedup === 1;
    this.body = record.slice(headEnd + 1);
    // Without meta, a reply address is one of version 0.1.
    this.meta = meta ?? (typeof replyTo === "string" ? JSON.stringify({ replyTo }) : undefined);
    if (priority !== undefined) {
      this.special = `${priority > 0 ? "p" : ""}${typeof key === "string" ? `k${key}` : ""}`;
    }
    this.deliveryCount = deliveryCount;
    this.leaseExpiries = leaseExpiries;
    this.enqueuedAt = Number(record.slice(0, sentAtEnd)) || 0;
    this.checkpoint = savedCheckpoint ?? checkpoint ?? undefined;
    this.state = state;
    this.leaseEndsAtUs = leaseEndsAtUs;
  }

  get receiptHandle(): string {
    return `${this.seq}-${this.receiveId}`;
  }
}

/** The part of a delivery that identifies it. */
export type Receipt = Pick<RedisDelivery, "seq" | "receiveId">;

/** Parses a receipt handle. */
export function parseHandle(receiptHandle: string): Receipt {
  const [seq = "", receiveId = ""] = receiptHandle.split(/-(.*)/s);
  return { seq, receiveId };
}

/** Encodes receipt handles for a script: for each receive its id and the message numbers. */
export function encodeHandles(deliveries: readonly Receipt[]): string {
  const receives: string[][] = [];
  let last: string | undefined;
  for (const { seq, receiveId } of deliveries) {
    if (receiveId !== last) receives.push([last = receiveId]);
    receives[receives.length - 1]!.push(seq);
  }
  return JSON.stringify(receives);
}

/** Returns the script arguments of an acknowledgement, see `acknowledge` in `scripts/handles.ts`. */
export function ackArguments(deliveries: readonly RedisDelivery[]): (string | number)[] {
  if (deliveries.length === 0) return [];
  const args: (string | number)[] = [encodeHandles(deliveries), 0];
  const special: string[] = [];
  const groups = new Groups();
  let wasChosen = true;
  for (let i = 0; i < deliveries.length; i++) {
    const delivery = deliveries[i]!;
    const { id, dedup } = delivery;
    if (dedup) args.push(`=${id}`, 1);
    else if (groups.isSame(id) && !wasChosen) (args[args.length - 1] as number)++;
    else args.push(groups.index, 1);
    wasChosen = dedup;
    if (delivery.special !== undefined) {
      while (special.length < i) special.push("");
      special.push(delivery.special);
    }
  }
  args[1] = args.length / 2 - 1;
  return special.length === 0 ? args : [...args, ...special];
}

/** The messages in the reply of RECEIVE. */
export interface ReceiveReply {
  readonly seqs: readonly string[];
  readonly records: readonly string[];
  /** For each message that was delivered before: its index, deliveries, expired leases, checkpoint. */
  readonly redelivered: readonly (number | string | null)[];
}

/** Returns the deliveries of a receive. `leaseEndsAtUs` is by the server's clock. */
export function receivedDeliveries(
  { seqs, records, redelivered }: ReceiveReply,
  receiveId: string,
  leaseEndsAtUs: number,
): RedisDelivery[] {
  const first = [1, 0, null] as const;
  const earlier: (readonly [count: number, expiries: number, checkpoint: string | null])[] = [];
  for (let i = 0; i < redelivered.length; i += 4) {
    const [index, count, expiries, checkpoint] = redelivered.slice(i, i + 4);
    earlier[index as number] = [count as number, expiries as number, checkpoint as string | null];
  }
  return seqs.map((seq, i) => {
    const [count, expiries, checkpoint] = earlier[i] ?? first;
    const record = records[i]!;
    return new RedisDelivery(seq, count, record, checkpoint, receiveId, leaseEndsAtUs, expiries);
  });
}

/** Returns the messages in the reply of PEEK or FIND, which has five fields for each. */
export function peekedMessages(reply: readonly unknown[]): RedisDelivery[] {
  const messages: RedisDelivery[] = [];
  for (let i = 2; i < reply.length; i += 5) {
    const [seq, count, record, checkpoint, state] = reply.slice(i, i + 5) as [
      string,
      number,
      string,
      string | null,
      MessageState,
    ];
    messages.push(new RedisDelivery(seq, count, record, checkpoint, "", 0, 0, state));
  }
  return messages;
}

/**
 * The result of a settling script: 1 when all receipt handles were valid, otherwise one number for each
 * delivery. 1: valid, 0: expired, 2: the message is gone.
 */
export type HandleResults = 1 | readonly number[] | null;

/** Calls that remove the message from the queue. */
const REMOVES: readonly string[] = ["acknowledge", "dead-letter"];
/** Calls that return the message to the queue. */
const RETURNS: readonly string[] = ["nack", "release"];

/** Returns true when this call settled the delivery, or an earlier attempt of the same call did. */
export function isSettled(
  call: string,
  results: HandleResults,
  index: number,
  { failedCall, leaseEndsAtUs }: RedisDelivery,
  nowUs: number,
): boolean {
  const result = results === 1 ? 1 : results?.[index];
  if (result === 1) return true;
  if (failedCall !== call || nowUs >= leaseEndsAtUs) return false;
  return REMOVES.includes(call) ? result === 2 : RETURNS.includes(call);
}

/** Records a failed settlement that the server may have run. Other calls keep the receipt handle valid. */
export function markFailed(call: string, deliveries: readonly RedisDelivery[]): void {
  if (!REMOVES.includes(call) && !RETURNS.includes(call)) return;
  for (const delivery of deliveries) delivery.failedCall = call;
}
