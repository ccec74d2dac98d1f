const PAYLOAD = /^(\S*) (\S*)(?: (\d+)\/(\d+) (.*))?$/s;

/** The most parts of the id of a cancelled message. */
const MAX_PARTS = 1_000;

/** A notification of the channel. */
export interface Notification {
  readonly sender: string;
  readonly queue: string;
  /** A part of the id of a cancelled message, from 1. */
  readonly part?: { readonly index: number; readonly count: number; readonly text: string };
}

/** Reads a payload. Any session may notify the channel: another payload wakes at most. */
export function notificationOf(payload: string): Notification {
  const [, sender = "", queue = "", part, parts, text = ""] = PAYLOAD.exec(payload) ?? [];
  const [index, count] = [Number(part), Number(parts)];
  if (!(index >= 1 && index <= count && count <= MAX_PARTS)) return { sender, queue };
  return { sender, queue, part: { index, count, text } };
}
