import type { HonoRequest } from "hono";
import { EventLoopYield } from "../_event_loop_yield.ts";
import type { Clock } from "../clock.ts";
import { errorText } from "../errors.ts";
import type { DeadLetter, PeekedMessage } from "../mailbox/mailbox.ts";
import { numberOf } from "./_requests.ts";

/** The most messages of a page. */
const MAX_PAGE = 100;
const DEFAULT_PAGE = 50;

/** The most messages that one request searches, and how many of them one call of the engine returns. */
const MAX_SEARCHED = 10_000;
const SEARCH_BATCH = 1_000;

/** The most characters of a body, as JSON. */
const MAX_TEXT = 10_000;

/** A page of messages. `next` is the `skip` of the next page; it is missing at the end. */
export interface Page<T> {
  readonly found: readonly T[];
  readonly next?: number;
}

/** How a page is read. */
export interface PageReader<T> {
  readonly read: (max: number, skip: number) => Promise<readonly T[]>;
  /** Selects messages. Undefined for all. */
  readonly matches: ((message: T) => boolean) | undefined;
  /** How long a search may take. */
  readonly timeoutMs: number;
  readonly clock: Clock;
}

/**
 * Reads the page that a request asks for. A search ends when the page is full, after {@linkcode MAX_SEARCHED}
 * messages or when its time is over; `next` continues it.
 */
export async function readPage<T>(request: HonoRequest, reader: PageReader<T>): Promise<Page<T>> {
  const { read, matches, timeoutMs, clock } = reader;
  const skip = numberOf(request, "skip", 0, { min: 0, max: Number.MAX_SAFE_INTEGER });
  const limit = numberOf(request, "limit", DEFAULT_PAGE, { min: 1, max: MAX_PAGE });
  const turns = EventLoopYield.of(clock);
  const endsAt = clock.monotonic() + timeoutMs;
  const size = matches === undefined ? limit + 1 : SEARCH_BATCH;
  const found: T[] = [];
  for (let at = skip;;) {
    const batch = await read(size, at);
    for (const message of batch) {
      if (found.length === limit) return { found, next: at };
      at++;
      if (matches === undefined || matches(message)) found.push(message);
      const nextTurn = turns.next();
      if (nextTurn !== undefined) await nextTurn;
    }
    if (batch.length < size) return { found };
    if (at - skip >= MAX_SEARCHED || clock.monotonic() >= endsAt) return { found, next: at };
  }
}

/** Returns the test of a search, which ignores case; undefined where the request has none. */
export function searchOf(
  request: HonoRequest,
): ((message: SearchedMessage) => boolean) | undefined {
  const wanted = request.query("find")?.toLowerCase();
  if (!wanted) return undefined;
  return ({ id, key, headers, body, raw }) => {
    return [id, key, headers, body, raw].some((it) => textOf(it).toLowerCase().includes(wanted));
  };
}

/** The fields that a search reads. */
interface SearchedMessage {
  readonly id: string;
  readonly key?: string | undefined;
  readonly headers?: unknown;
  readonly body?: unknown;
  readonly raw?: unknown;
}

/** Returns a message as JSON data. */
export function messageDetail(message: PeekedMessage<unknown>): object {
  const { body, checkpoint, steps, expiresInMs, ...fields } = message;
  return {
    ...fields,
    ...(expiresInMs !== undefined && { expiresAt: fields.enqueuedAt + expiresInMs }),
    ...shortened("steps", steps),
    ...shortened("checkpoint", checkpoint),
    ...shortened("body", body),
  };
}

/** Returns the dead letter that a peeked message contains; its text where it cannot be read. */
export function letterOf(peeked: PeekedMessage<unknown>): DeadLetter<unknown> {
  const { id, deliveryCount, enqueuedAt, headers, body } = peeked;
  const letter: Partial<DeadLetter<unknown>> = Object(body);
  const fields = { id, deliveryCount, enqueuedAt, deadAt: enqueuedAt, headers };
  return letter.reason === undefined
    ? { ...fields, reason: "unreadable", raw: textOf(body) }
    : { ...fields, reason: "", ...letter };
}

/** Returns a dead letter as JSON data. */
export function letterDetail(letter: DeadLetter<unknown>): object {
  const { body, raw, error, checkpoint, ...fields } = letter;
  return {
    ...fields,
    ...shortened("error", error),
    ...shortened("checkpoint", checkpoint),
    ...shortened("raw", raw),
    ...shortened("body", body),
  };
}

/** Returns the value by its name. A long one is the beginning of its text, and the length of the text. */
function shortened(name: string, value: unknown): object {
  if (value === undefined) return {};
  const text = textOf(value);
  if (text.length <= MAX_TEXT) {
    return { [name]: typeof value === "string" ? value : JSON.parse(text) };
  }
  return { [`${name}Text`]: text.slice(0, MAX_TEXT), [`${name}Length`]: text.length };
}

/** Returns a value as JSON, and a text as it is. What JSON cannot contain is a text in it. */
function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    const plain = (_: string, it: unknown) => typeof it === "bigint" ? String(it) : it;
    return JSON.stringify(value, plain) ?? "null";
  } catch (error) {
    return JSON.stringify(errorText(error));
  }
}
