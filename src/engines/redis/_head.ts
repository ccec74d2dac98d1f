import type { Entry } from "../../mailbox/engine.ts";

/**
 * The head of a record. A record is `<sent at> <head>\n<body>`, one hash field, so that a receive needs one
 * lookup per message. JSON never contains a line break, so the first one ends the head.
 *
 * Version 0.1 writes format 1, which has no `meta`. Format 2 has it at the end, and is written for a message
 * with meta; a message without meta is the same in both formats. During a rolling deploy the versions share
 * the queue: workers of version 0.1 read the first four fields of format 2. They handle the message without
 * its headers, which they do not know, and their dead letter of it has none. So the marker in META stays 1:
 * with another one, version 0.1 would refuse to open the queue again after a rollback.
 *
 * The marker becomes 2 with the first message that has a key or a priority. Version 0.1 does not keep the
 * lines of keys: its acknowledgement would leave a key blocked. With the marker it refuses to open the queue.
 * Workers of version 0.1 that have the queue open by then do not notice, so they must be stopped before the
 * first such message is sent.
 */
export type Head = readonly [
  id: string,
  dedup: 0 | 1,
  replyTo?: string | null,
  checkpoint?: string | null,
  meta?: string | null,
  key?: string | null,
  priority?: number,
];

/** Returns the stored head of a message. */
export function headOf({ id, dedup, meta, checkpoint, key, priority = 0 }: Entry<string>): string {
  const start = [id, dedup ? 1 : 0] as const;
  const head: Head = key !== undefined || priority > 0
    ? [...start, replyToOf(meta ?? ""), checkpoint ?? null, meta ?? null, key ?? null, priority]
    : meta !== undefined
    ? [...start, replyToOf(meta), checkpoint ?? null, meta]
    : checkpoint !== undefined
    ? [...start, null, checkpoint]
    : start;
  return JSON.stringify(head);
}

/** Returns the reply address in meta, for workers of version 0.1, which read it from the head. */
function replyToOf(meta: string): string | null {
  if (!meta.includes('"replyTo":')) return null;
  try {
    const { replyTo } = JSON.parse(meta);
    return typeof replyTo === "string" ? replyTo : null;
  } catch {
    return null;
  }
}

/** Returns undefined for a head that this package did not write. */
export function readHead(text: string): Head | undefined {
  try {
    const head: unknown = JSON.parse(text);
    if (!Array.isArray(head)) return undefined;
    const [id, dedup, replyTo, checkpoint, meta, key, priority] = head;
    const areTexts = [replyTo, checkpoint, meta, key].every((it) => typeof (it ?? "") === "string");
    const isHead = typeof id === "string" && (dedup === 0 || dedup === 1) && areTexts &&
      typeof (priority ?? 0) === "number";
    return isHead ? head as unknown as Head : undefined;
  } catch {
    return undefined; // not JSON
  }
}

/** The head of a damaged record. Its meta is not JSON, so that the mailbox dead-letters the message as unreadable. */
export function unreadable(seq: string): Head {
  return [`unreadable-${seq}`, 0, null, null, "damaged record"];
}
