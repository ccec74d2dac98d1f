import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Calls, CommandName } from "./_calls.ts";
import { isTransient } from "./_errors.ts";

/** The most entries that SQS takes in one request. */
export const BATCH = 10;

/** More parallel requests would wait for a connection. */
const PARALLEL = 16;

/** How often an entry with a transient error is tried. */
const ATTEMPTS = 4;
const RETRY_PAUSE_MS = 50;

/** A permanent error of one entry. */
export interface Refusal {
  readonly code: string;
  readonly text: string;
}

/** The result of one entry; undefined when it succeeded. */
export type Outcome = undefined | Refusal | Error;

/** One entry without its id in the batch. */
export interface BatchEntry {
  readonly input: object;
  /** Its share of the request size, in bytes. */
  readonly bytes?: number;
}

interface Answer {
  readonly Failed?: readonly {
    readonly Id: string;
    readonly Code?: string;
    readonly Message?: string;
    readonly SenderFault?: boolean;
  }[];
}

/** Options of {@linkcode runInBatches}. */
export interface BatchOptions {
  /** The largest request in bytes. @default {Infinity} */
  readonly maxBytes?: number;
  /** Sends one batch at a time and stops after a failed one. @default {false} */
  readonly inOrder?: boolean;
}

/** Runs a command on many entries in as few requests as possible. Returns the outcome of each entry. */
export async function runInBatches(
  calls: Calls,
  what: string,
  name: CommandName,
  queueUrl: string,
  entries: readonly BatchEntry[],
  { maxBytes = Infinity, inOrder = false }: BatchOptions = {},
): Promise<Outcome[]> {
  const outcomes: Outcome[] = entries.map(() =>
    new MailboxConnectionError("SQS was not called, because an earlier batch failed")
  );
  const batches = split(entries, maxBytes);
  const work = async () => {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
      await runBatch(calls, what, name, queueUrl, entries, batch, outcomes);
      if (inOrder && batch.some((i) => outcomes[i] !== undefined)) return;
    }
  };
  const workers = Math.min(inOrder ? 1 : PARALLEL, batches.length);
  await Promise.all(Array.from({ length: workers }, work));
  return outcomes;
}

/** Throws the first transient error, so that the caller tries again. */
export function throwFailed(outcomes: readonly Outcome[]): void {
  const failed = outcomes.find((it) => it instanceof Error);
  if (failed !== undefined) throw failed;
}

async function runBatch(
  calls: Calls,
  what: string,
  name: CommandName,
  queueUrl: string,
  entries: readonly BatchEntry[],
  batch: readonly number[],
  outcomes: Outcome[],
): Promise<void> {
  let remaining = batch;
  for (let attempt = 1; remaining.length > 0; attempt++) {
    const Entries = remaining.map((i) => ({ Id: `${i}`, ...entries[i]!.input }));
    const failed: number[] = [];
    try {
      const answer = await calls.run<Answer>(what, name, { QueueUrl: queueUrl, Entries });
      for (const i of remaining) outcomes[i] = undefined;
      for (const { Id, Code = "", Message = "", SenderFault = false } of answer.Failed ?? []) {
        const text = `${Code}: ${Message}`.replace(/\.$/, "");
        if (isTransient(Code, SenderFault)) {
          outcomes[Number(Id)] = new MailboxConnectionError(`SQS failed to ${what}: ${text}`);
          failed.push(Number(Id));
        } else outcomes[Number(Id)] = { code: Code, text };
      }
    } catch (error) {
      for (const i of remaining) outcomes[i] = error as Error;
      return; // the SDK has retried already
    }
    if (attempt === ATTEMPTS) return;
    remaining = failed;
    if (remaining.length > 0) {
      await calls.clock.sleep(RETRY_PAUSE_MS * 2 ** attempt * (0.5 + Math.random()));
    }
  }
}

/** Returns the indexes of the entries, grouped into requests. */
function split(entries: readonly BatchEntry[], maxBytes: number): number[][] {
  const batches: number[][] = [];
  let batch: number[] = [];
  let size = 0;
  for (const [i, { bytes = 0 }] of entries.entries()) {
    if (batch.length === 0 || batch.length === BATCH || size + bytes > maxBytes) {
      batches.push(batch = []);
      size = 0;
    }
    batch.push(i);
    size += bytes;
  }
  return batches;
}
