import type { MessageState } from "../../mailbox/engine.ts";

/**
 * The state of a message, stored in the name of its file. A visible message is
 * `<order>~<deliveries>~<releases>~<marks>~<id>.json`; a hidden one has `<until>~<receipt handle>~` before
 * that. A process receives a message by renaming its file, which only one process can do.
 */
export interface FileName {
  /** The position in the queue: the time of the send, a counter, and a suffix of the sender. */
  readonly order: string;
  readonly deliveries: number;
  readonly releases: number;
  /** True when the sender chose the id. */
  readonly chosen: boolean;
  /** True when a file in `more` has the meta or the checkpoint of the message. */
  readonly hasExtras: boolean;
  readonly id: string;
  /** Hidden until then, in milliseconds since the Unix epoch; undefined for a visible message. */
  readonly until?: number;
  /** Of the delivery that hides the message; empty when the message is delayed. */
  readonly receiptHandle?: string;
}

const FORM = /^(?:(\d{15})~(\w*)~)?(\d{13}-\d{8}-\w+)~(\d+)~(\d+)~([cm]*)~(.*)\.json$/s;

/**
 * Parses a file name. Returns undefined for a file that this package did not write, also for one that it would
 * name in another way: it could not rename that file.
 */
export function parseName(name: string): FileName | undefined {
  const found = FORM.exec(name);
  if (found === null) return undefined;
  const [, until, receiptHandle = "", order = "", deliveries, releases, marks = "", id = ""] =
    found;
  const visible = {
    order,
    deliveries: Number(deliveries),
    releases: Number(releases),
    chosen: marks.includes("c"),
    hasExtras: marks.includes("m"),
    id: decode(id),
  };
  const file = until === undefined ? visible : { ...visible, until: Number(until), receiptHandle };
  return fitsInName(file.id, Infinity) && formatName(file) === name ? file : undefined;
}

/** Returns the file of a script as a message without a position. */
export function scriptFile(name: string): FileName {
  const id = name.slice(0, -".json".length);
  return { order: name, deliveries: 0, releases: 0, chosen: false, hasExtras: false, id };
}

/** Returns the same message as a visible one. */
export function toVisible(file: FileName): FileName {
  const { until: _until, receiptHandle: _receiptHandle, ...visible } = file;
  return visible;
}

/** Returns the file name of a message. */
export function formatName(file: FileName): string {
  const { order, deliveries, releases, chosen, hasExtras, id, until, receiptHandle = "" } = file;
  const marks = `${chosen ? "c" : ""}${hasExtras ? "m" : ""}`;
  const visible = `${order}~${deliveries}~${releases}~${marks}~${encodeURIComponent(id)}.json`;
  if (until === undefined) return visible;
  return `${String(Math.ceil(until)).padStart(15, "0")}~${receiptHandle}~${visible}`;
}

/** The largest number that fits into a position. */
const MAX_SENT_AT = 9_999_999_999_999;

/** Returns a position in the queue. */
export function orderOf(sentAt: number, count: number, sender: string): string {
  const ms = Math.min(Math.max(0, Math.floor(sentAt)), MAX_SENT_AT); // the file of a script may have any time
  return `${String(ms).padStart(13, "0")}-${String(count).padStart(8, "0")}-${sender}`;
}

/** Returns when the message at this position was sent, in milliseconds since the Unix epoch. */
export function sentAt(order: string): number {
  return Number(/^(\d{13})-\d{8}-/.exec(order)?.[1]); // the file of a script may have no position yet
}

/** Returns where a message is. A delay or a lease that has passed does not hide it. */
export function stateOf({ until = 0, receiptHandle = "" }: FileName, now: number): MessageState {
  if (until <= now) return "waiting";
  return receiptHandle === "" ? "delayed" : "inFlight";
}

/** The longest id of a script's file, whose position takes more of the name. */
export const SCRIPT_ID_BYTES = 100;

/** Returns whether an id fits into a name: the limit is 255 bytes, and the other parts take up to 80. */
export function fitsInName(id: string, maxBytes = 160): boolean {
  try {
    return encodeURIComponent(id).length <= maxBytes;
  } catch {
    return false; // half of a surrogate pair
  }
}

function decode(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id; // written by another program
  }
}
