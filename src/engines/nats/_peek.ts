import type { Delivery } from "../../mailbox/engine.ts";
import { parsePayload } from "./_delivery.ts";
import { JetStreamError, NO_MESSAGE } from "./_errors.ts";
import { textOf } from "./_jetstream.ts";
import type { Queue } from "./_queue.ts";

/** A message without a receipt handle. */
export type Peeked = Omit<Delivery<string>, "receipt">;

/**
 * Returns the oldest messages. The server does not report delivery counts, so only messages that this
 * process holds have one.
 */
export async function peek(
  what: string,
  max: number,
  { jetStream, leases, names }: Pick<Queue, "jetStream" | "leases" | "names">,
): Promise<readonly Peeked[]> {
  const delivered = leases.bySequence();
  const peeked: Peeked[] = [];
  for (let seq = 0; peeked.length < max;) {
    const which = { seq: seq + 1, next_by_subj: `${names.subjects}*` };
    try {
      const found = await jetStream.get(what, names.stream, which);
      seq = found.seq;
      const { head: [id, replyTo], body } = parsePayload(textOf(found), seq);
      const deliveryCount = delivered.get(seq)?.deliveryCount ?? 0;
      const enqueuedAt = Date.parse(found.time);
      peeked.push({ id, body, deliveryCount, enqueuedAt, replyTo: replyTo ?? undefined });
    } catch (error) {
      if (error instanceof JetStreamError && error.code === NO_MESSAGE) break;
      throw error;
    }
  }
  return peeked;
}
