// What runs on the thread that keeps leases. It is loaded there by its address.

import { systemClock } from "../clock.ts";
import {
  addressOf,
  type LeaseKeeping,
  type LeaseKeepingModule,
  type LeaseKeepingPlan,
} from "../mailbox/lease_keeping.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";
import type { LeaseTerms } from "./lease.ts";
import { LeaseBoard, SLOTS } from "./_lease_board.ts";

/** Where the thread finds this module. */
export const address: string | undefined = addressOf(import.meta.url, "_keeper_thread");

/** What the thread is told; everything else it reads from the boards. */
export type Posting =
  | { readonly kind: "board"; readonly memory: SharedArrayBuffer }
  | {
    readonly kind: "join";
    readonly post: number;
    readonly plan: LeaseKeepingPlan;
    readonly terms: LeaseTerms;
  }
  | { readonly kind: "leave"; readonly post: number };

/** A lease is looked at this often before it is due. */
const LOOKS = 4;

/** What is known of the slots of one board. */
interface Watched {
  readonly board: LeaseBoard;
  readonly stamps: Int32Array;
  readonly beats: Int32Array;
  /** When the stamp was first seen, or the lease extended from here. */
  readonly since: Float64Array;
  readonly lastBeat: Float64Array;
}

/** The leases of one post that are due. */
interface Due {
  readonly receipts: string[];
  /** What to do with the answer for each. */
  readonly onResult: ((held: boolean) => void)[];
}

/** The leases of one mailbox. Nothing is opened before one of them is overdue. */
class Post {
  readonly terms: LeaseTerms;
  readonly #plan: LeaseKeepingPlan;
  #opening: Promise<LeaseKeeping> | undefined;
  #busy = false;

  constructor(plan: LeaseKeepingPlan, terms: LeaseTerms) {
    this.#plan = plan;
    this.terms = terms;
  }

  async extend({ receipts, onResult }: Due): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      const keeping = await (this.#opening ??= this.#open());
      for (let from = 0; from < receipts.length; from += MAX_BATCH) {
        const batch = receipts.slice(from, from + MAX_BATCH);
        const held = await keeping.extend(batch, this.terms.extensionMs);
        for (const i of batch.keys()) onResult[from + i]!(held[i] === true);
      }
    } catch {
      // The engine is away: the leases are still overdue at the next look.
    } finally {
      this.#busy = false;
    }
  }

  async close(): Promise<void> {
    await (await this.#opening?.catch(() => undefined))?.close();
  }

  async #open(): Promise<LeaseKeeping> {
    try {
      const { openLeaseKeeping } = await import(this.#plan.module) as LeaseKeepingModule;
      return await openLeaseKeeping(this.#plan.options);
    } catch (error) {
      this.#opening = undefined;
      throw error;
    }
  }
}

const posts = new Map<number, Post>();
const boards: Watched[] = [];
let cancelLook: (() => void) | undefined;

/** Hears what the main thread has to say. */
export function onPost(posting: Posting): void {
  switch (posting.kind) {
    case "board":
      boards.push(watched(new LeaseBoard(posting.memory)));
      break;
    case "join":
      posts.set(posting.post, new Post(posting.plan, posting.terms));
      break;
    case "leave":
      void posts.get(posting.post)?.close().catch(() => {});
      posts.delete(posting.post);
  }
  look();
}

function watched(board: LeaseBoard): Watched {
  return {
    board,
    stamps: new Int32Array(SLOTS),
    beats: new Int32Array(SLOTS),
    since: new Float64Array(SLOTS),
    lastBeat: new Float64Array(SLOTS),
  };
}

/**
 * Extends what is overdue. The threads have no clock in common, so a lease is as old here as it was seen
 * unchanged: the main thread, which knows better, comes first as long as it can.
 */
function look(): void {
  cancelLook?.();
  const intervals = [...posts.values()].map(({ terms }) => terms.intervalMs);
  cancelLook = systemClock.schedule(Math.min(...intervals) / LOOKS, look);
  const now = systemClock.monotonic();
  const due = new Map<Post, Due>();
  for (const watched of boards) {
    for (let slot = 0; slot < SLOTS; slot++) lookAt(watched, slot, now, due);
  }
  for (const [post, leases] of due) void post.extend(leases);
}

function lookAt(watched: Watched, slot: number, now: number, due: Map<Post, Due>): void {
  const { board, stamps, beats, since, lastBeat } = watched;
  const stamp = board.stamp(slot);
  if (stamp !== stamps[slot]) {
    stamps[slot] = stamp;
    since[slot] = now;
  }
  if (stamp === 0) return;
  const beat = board.beats(slot);
  if (beat !== beats[slot]) {
    beats[slot] = beat;
    lastBeat[slot] = now;
  }
  const post = posts.get(board.post(slot));
  if (post === undefined || now - since[slot]! < post.terms.intervalMs) return;
  if (now - lastBeat[slot]! > post.terms.beatWithinMs) return;
  const receipt = board.receipt(slot, stamp);
  if (receipt === undefined) return;
  const { receipts, onResult } = due.get(post) ?? { receipts: [], onResult: [] };
  receipts.push(receipt);
  onResult.push((held) => {
    // One that is lost is left alone until something else stands there.
    if (stamps[slot] === stamp) since[slot] = held ? systemClock.monotonic() : Infinity;
  });
  due.set(post, { receipts, onResult });
}
