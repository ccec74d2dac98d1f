import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Calls, CommandName } from "./_calls.ts";
import { isPassing } from "./_errors.ts";

/** As many as SQS takes in one request. */
export const BATCH = 10;

/** More at a time would wait for a connection. */
const PARALLEL = 16;

/** How often an entry is tried that failed for a reason that may pass. */
const ATTEMPTS = 4;
const PAUSE_MS = 50;

/** Why the service does not take an entry: it never will. */
export interface Refusal {
  readonly code: string;
  readonly text: string;
}

/** What became of an entry: nothing to say when it was done. */
export type Outcome = undefined | Refusal | Error;

/** One of many, without its number in the batch. */
export interface BatchEntry {
  readonly input: object;
  /** What it counts towards the size of a request. */
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
  /** The largest request. @default {Infinity} */
  readonly maxBytes?: number;
  /** One batch after the other, and none after one that failed. @default {false} */
  readonly inOrder?: boolean;
}

/** Runs a command on many entries, as few requests as possible at a time, and tells what became of each. */
export async function runInBatches(
  calls: Calls,
  what: string,
  name: CommandName,
  queueUrl: string,
  entries: readonly BatchEntry[],
  { maxBytes = Infinity, inOrder = false }: BatchOptions = {},
): Promise<Outcome[]> {
  const outcomes: Outcome[] = entries.map(() => new MailboxConnectionError(`SQS was not asked`));
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

/** The first failure that may pass; whoever settles tries again. */
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
  let open = batch;
  for (let attempt = 1; open.length > 0; attempt++) {
    const Entries = open.map((i) => ({ Id: `${i}`, ...entries[i]!.input }));
    const failed: number[] = [];
    try {
      const answer = await calls.run<Answer>(what, name, { QueueUrl: queueUrl, Entries });
      for (const i of open) outcomes[i] = undefined;
      for (const { Id, Code = "", Message = "", SenderFault = false } of answer.Failed ?? []) {
        const text = `${Code}: ${Message}`.replace(/\.$/, "");
        if (isPassing(Code, SenderFault)) {
          outcomes[Number(Id)] = new MailboxConnectionError(`SQS failed to ${what}: ${text}`);
          failed.push(Number(Id));
        } else outcomes[Number(Id)] = { code: Code, text };
      }
    } catch (error) {
      for (const i of open) outcomes[i] = error as Error;
      return; // the SDK has tried again already
    }
    if (attempt === ATTEMPTS) return;
    open = failed;
    if (open.length > 0) {
      await calls.clock.sleep(PAUSE_MS * 2 ** attempt * (0.5 + Math.random()));
    }
  }
}

/** The numbers of the entries, in requests. */
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
