/**
 * What a file of a mailbox is, told by its name. A message that can be had is
 * `<order>~<deliveries>~<releases>~<marks>~<id>.json`; one that is hidden has `<until>~<receipt>~` before
 * that. To take a message is to rename its file, which only one can do.
 */
export interface FileName {
  /** Its place in the line: the time it was sent, a count, and who sent it. */
  readonly order: string;
  readonly deliveries: number;
  readonly releases: number;
  /** The id was chosen by the sender. */
  readonly chosen: boolean;
  /** There is more to know of it in a file beside. */
  readonly more: boolean;
  readonly id: string;
  /** Hidden until then. */
  readonly until?: number;
  /** Of the delivery that hides it; empty when it was put off. */
  readonly receipt?: string;
}

const FORM = /^(?:(\d{15})~(\w*)~)?(\d{13}-\d{8}-\w+)~(\d+)~(\d+)~([cm]*)~(.*)\.json$/s;

/** Parses a file name. Returns undefined for a file that this package did not write. */
export function parseName(name: string): FileName | undefined {
  const found = FORM.exec(name);
  if (found === null) return undefined;
  const [, until, receipt, order = "", deliveries, releases, marks = "", id = ""] = found;
  const rest = {
    order,
    deliveries: Number(deliveries),
    releases: Number(releases),
    chosen: marks.includes("c"),
    more: marks.includes("m"),
    id: decode(id),
  };
  return until === undefined ? rest : { ...rest, until: Number(until), receipt: receipt ?? "" };
}

/** The name of a message that can be had. */
export function visibleName(file: FileName): string {
  const { order, deliveries, releases, chosen, more, id } = file;
  const marks = `${chosen ? "c" : ""}${more ? "m" : ""}`;
  return `${order}~${deliveries}~${releases}~${marks}~${encodeURIComponent(id)}.json`;
}

/** The name of a message that is hidden. */
export function hiddenName(file: FileName, until: number, receipt: string): string {
  return `${String(Math.ceil(until)).padStart(15, "0")}~${receipt}~${visibleName(file)}`;
}

/** A place in the line. */
export function orderOf(sentAt: number, count: number, sender: string): string {
  return `${String(Math.floor(sentAt)).padStart(13, "0")}-${
    String(count).padStart(8, "0")
  }-${sender}`;
}

/** When a message of this place was sent. */
export function sentAt(order: string): number {
  return Number(order.slice(0, 13));
}

/** The longest id in the name of a script's file, where the place in the line takes more. */
export const SCRIPT_ID_BYTES = 100;

/** Names of files are 255 bytes at the most, and all else takes up to 80. */
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
    return id; // not written here
  }
}
