/** The file of example 14: the messages of its engine, and how the file is changed. */

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import type { EngineStats, Entry, MessageState } from "../src/engine.ts";

/** A message in the file. Its position in the list is its position in the queue. */
export interface Row {
  readonly id: string;
  readonly body: string;
  /** The envelope. An engine stores it unchanged and does not read it. */
  readonly meta?: string | undefined;
  /** True when the sender chose the id: the mailbox has it once. */
  readonly dedup: boolean;
  readonly enqueuedAt: number;
  /** The end of its delay or of its lease. */
  visibleAt: number;
  /** Identifies the last delivery. It is valid until `visibleAt`. */
  receiptHandle: string;
  deliveryCount: number;
  releases: number;
  checkpoint?: string | undefined;
}

/** The queues of the file by name. Dead letters are in the same file, so that one write moves a message. */
export type Queues = Record<string, Row[]>;

export function newRow(entry: Entry<string>, now: number): Row {
  const { id, body, meta, dedup, delayMs, checkpoint } = entry;
  const state = { receiptHandle: "", deliveryCount: 0, releases: 0, checkpoint };
  return { id, body, meta, dedup, enqueuedAt: now, visibleAt: now + delayMs, ...state };
}

/** A delay or a lease that has passed does not hide a message. */
export function stateOf({ visibleAt, receiptHandle }: Row, now: number): MessageState {
  if (visibleAt <= now) return "waiting";
  return receiptHandle === "" ? "delayed" : "inFlight";
}

export function statsOf(rows: readonly Row[], now: number): EngineStats {
  const of = (state: MessageState) => rows.filter((row) => stateOf(row, now) === state);
  const [waiting, delayed, inFlight] = [of("waiting"), of("delayed").length, of("inFlight").length];
  const [oldest] = waiting; // rows are in the order in which they were sent
  const age = oldest === undefined ? {} : { oldestWaitingMs: now - oldest.enqueuedAt };
  return { waiting: waiting.length, delayed, inFlight, ...age };
}

/** Reads, changes and writes the file. Without an await in between, the call is atomic in this process. */
export function changeFile<R>(path: string, change: (queues: Queues) => R): R {
  const text = existsSync(path) ? readFileSync(path, "utf8") : "{}";
  const queues: Queues = JSON.parse(text);
  const result = change(queues);
  const changed = JSON.stringify(queues);
  if (changed !== text) {
    writeFileSync(`${path}.new`, changed);
    renameSync(`${path}.new`, path); // all changes, or none
  }
  return result;
}
