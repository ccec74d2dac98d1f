import type { HonoRequest } from "hono";
import { show } from "../_checks.ts";
import { isStorable } from "../mailbox/envelope.ts";

/** The most ids of one request. */
const MAX_IDS = 100;

/** A request that is answered with an error. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: 400 | 404 | 409 | 503;
  /** What was changed before the error. */
  readonly done: object | undefined;

  constructor(status: Refusal["status"], message: string, done?: object) {
    super(message);
    this.status = status;
    this.done = done;
  }
}

/** Returns a whole number of the query, or `otherwise` where it is absent. */
export function numberOf(
  request: HonoRequest,
  name: string,
  otherwise: number,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  const text = request.query(name);
  if (text === undefined) return otherwise;
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  throw new Refusal(400, `${name} must be a whole number from ${min} to ${max}, not ${show(text)}`);
}

/** Returns a word of the query that is one of `allowed`. */
export function wordOf<T extends string>(
  request: HonoRequest,
  name: string,
  allowed: readonly T[],
): T | undefined {
  const text = request.query(name);
  const found = allowed.find((it) => it === text);
  if (text === undefined || found !== undefined) return found;
  throw new Refusal(400, `${name} must be one of ${allowed.join(", ")}, not ${show(text)}`);
}

/** Returns the ids in the body of a request, each once; undefined for an empty body. */
export async function idsOf(request: HonoRequest): Promise<readonly string[] | undefined> {
  const text = await request.text();
  if (text === "") return undefined;
  const ids = parsedIds(text);
  const areIds = ids.every((id): id is string => id !== "" && isStorable(id));
  if (areIds && ids.length >= 1 && ids.length <= MAX_IDS) return [...new Set(ids)];
  throw new Refusal(400, `ids must be a list of 1 to ${MAX_IDS} ids of messages: {"ids": ["…"]}`);
}

function parsedIds(text: string): readonly unknown[] {
  try {
    const { ids } = Object(JSON.parse(text));
    return Array.isArray(ids) ? ids : [];
  } catch {
    throw new Refusal(400, 'the body is not JSON: send {"ids": ["…"]}');
  }
}

/** Returns the ids in the body of a request. */
export async function requiredIdsOf(request: HonoRequest): Promise<readonly string[]> {
  const ids = await idsOf(request);
  if (ids !== undefined) return ids;
  throw new Refusal(400, 'the request has no body: send {"ids": ["…"]}');
}
