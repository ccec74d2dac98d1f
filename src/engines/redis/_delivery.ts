import type { Delivery, Entry } from "../../mailbox/engine.ts";

/** The fields of one message in an answer to a look: number, deliveries, record, progress. */
const FIELDS = 4;

/**
 * A message that was taken from Redis. Everything of one pull has the same nonce.
 *
 * A call whose answer never came may have been made, and the next attempt finds that the receipt is not
 * good any more. As long as the lease lasts nobody else can have settled the message, so it was this
 * delivery: such an attempt has succeeded.
 */
export class RedisDelivery implements Delivery<string> {
  readonly seq: string;
  readonly nonce: string;
  readonly id: string;
  /** The id was chosen by the sender. */
  readonly dedup: boolean;
  readonly body: string;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly replyTo: string | undefined;
  readonly checkpoint: string | undefined;
  /** Until when, by the server's clock, the message is nobody else's. */
  heldUntilUs: number;
  /** The call that failed last, and may have worked. */
  tried: string | undefined;

  constructor(
    seq: string,
    deliveries: number,
    record: string,
    progress: string | null,
    nonce: string,
    heldUntilUs = 0,
  ) {
    const headAt = record.indexOf(" ");
    const headEnd = record.indexOf("\n");
    const [id, dedup, replyTo, sentWith] = JSON.parse(record.slice(headAt + 1, headEnd)) as Head;
    this.seq = seq;
    this.nonce = nonce;
    this.id = id;
    this.dedup = dedup === 1;
    this.body = record.slice(headEnd + 1);
    this.deliveryCount = deliveries;
    this.enqueuedAt = Number(record.slice(0, headAt));
    this.replyTo = replyTo ?? undefined;
    this.checkpoint = progress ?? sentWith;
    this.heldUntilUs = heldUntilUs;
  }

  get receipt(): string {
    return `${this.seq}-${this.nonce}`;
  }

  /** What has to be free again once the message is gone. */
  get chosenId(): string {
    return chosenIdOf(this);
  }
}

/** An id that its sender chose, marked so that it is never empty; empty for all others. */
export function chosenIdOf({ id, dedup }: Pick<Entry<string>, "id" | "dedup">): string {
  return dedup ? `=${id}` : "";
}

type Head = readonly [id: string, dedup: 0 | 1, replyTo?: string | null, checkpoint?: string];

/** What is stored of a message beside its body. JSON has no line break, which ends it. */
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

/** What a pull hands over: messages, and what is known of those that had come before. */
export interface Handed {
  readonly seqs: readonly string[];
  readonly records: readonly string[];
  /** For each of those: its place, deliveries, progress. */
  readonly again: readonly (number | string | null)[];
}

/** The deliveries of a pull, whose leases end at this time of the server. */
export function pulledDeliveries(
  { seqs, records, again }: Handed,
  nonce: string,
  untilUs: number,
): RedisDelivery[] {
  const counts: number[] = [];
  const progress: (string | null)[] = [];
  for (let i = 0; i < again.length; i += 3) {
    const place = again[i] as number;
    counts[place] = again[i + 1] as number;
    progress[place] = again[i + 2] as string | null;
  }
  return seqs.map((seq, i) => {
    return new RedisDelivery(seq, counts[i] ?? 1, records[i]!, progress[i] ?? null, nonce, untilUs);
  });
}

/** The messages of an answer to a look. */
export function peekedDeliveries(reply: readonly unknown[]): RedisDelivery[] {
  const deliveries: RedisDelivery[] = [];
  for (let i = 2; i < reply.length; i += FIELDS) {
    const [seq, count] = [reply[i] as string, reply[i + 1] as number];
    const [record, progress] = [reply[i + 2] as string, reply[i + 3] as string | null];
    deliveries.push(new RedisDelivery(seq, count, record, progress, ""));
  }
  return deliveries;
}

/** Names deliveries to a script: those that came by the same pull, one after another, with its nonce. */
export function naming(deliveries: readonly RedisDelivery[]): string {
  const pulls: string[][] = [];
  let nonce: string | undefined;
  for (const delivery of deliveries) {
    if (delivery.nonce !== nonce) pulls.push([nonce = delivery.nonce]);
    pulls[pulls.length - 1]!.push(delivery.seq);
  }
  return JSON.stringify(pulls);
}

/** What a script answers for deliveries: 1 when all were good, otherwise for each 1, 0, or 2 for gone. */
export type Settled = 1 | readonly number[] | null;

/** Calls after which the message is gone, and those after which it is back in line. */
const REMOVE: readonly string[] = ["acknowledge", "bury"];
const GIVE_BACK: readonly string[] = ["nack", "release"];

/** True when the delivery at this place was good for the call, or had it made by an earlier attempt. */
export function isSettled(
  what: string,
  settled: Settled,
  place: number,
  { tried, heldUntilUs }: RedisDelivery,
  nowUs: number,
): boolean {
  const answer = settled === 1 ? 1 : settled?.[place];
  if (answer === 1) return true;
  if (tried !== what || nowUs >= heldUntilUs) return false;
  return REMOVE.includes(what) ? answer === 2 : GIVE_BACK.includes(what);
}

/** Remembers a call that may have been made. */
export function haveTried(what: string, deliveries: readonly RedisDelivery[]): void {
  for (const delivery of deliveries) delivery.tried = what;
}
