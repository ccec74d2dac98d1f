// What runs on the thread that keeps leases. It is loaded there by its address.

import { systemClock } from "../clock.ts";
import {
  addressOf,
  type LeaseKeeping,
  type LeaseKeepingModule,
  type LeaseKeepingPlan,
} from "../mailbox/lease_keeping.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";
import { type LeaseTerms, SHORT_INTERVAL_MS } from "./_kept_lease.ts";
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

/** The leases of one mailbox. Unless they are short, nothing is connected to before one is overdue. */
class Post {
  readonly terms: LeaseTerms;
  readonly #options: unknown;
  readonly #loading: Promise<LeaseKeepingModule>;
  #opening: Promise<LeaseKeeping> | undefined;
  #busy = false;

  constructor(plan: LeaseKeepingPlan, terms: LeaseTerms) {
    this.#options = plan.options;
    this.terms = terms;
    this.#loading = import(plan.module);
  }

  /** Does now what would take time when a lease is overdue. */
  async prepare(): Promise<void> {
    await this.#loading;
    if (this.terms.intervalMs < SHORT_INTERVAL_MS) await (this.#opening ??= this.#open());
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
      return await (await this.#loading).openLeaseKeeping(this.#options);
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
export async function onPost(posting: Posting): Promise<void> {
  if (posting.kind === "board") {
    boards.push(watched(new LeaseBoard(posting.memory)));
  } else if (posting.kind === "join") {
    const post = new Post(posting.plan, posting.terms);
    posts.set(posting.post, post);
    look();
    await post.prepare();
  } else {
    const post = posts.get(posting.post);
    posts.delete(posting.post);
    await post?.close();
  }
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
 * Extends what is overdue, and was not extended by the main thread, which comes first as long as it can.
 * The threads have no clock in common but the wall clock, which may be set: a lease is as old as that
 * says, and at least as old as it was seen here. To extend one too early does no harm.
 */
function look(): void {
  cancelLook?.();
  const intervals = [...posts.values()].map(({ terms }) => terms.intervalMs);
  cancelLook = systemClock.schedule(Math.min(...intervals) / LOOKS, look);
  const [now, wallNow] = [systemClock.monotonic(), systemClock.now()];
  const due = new Map<Post, Due>();
  for (const watched of boards) {
    for (let slot = 0; slot < SLOTS; slot++) lookAt(watched, slot, now, wallNow, due);
  }
  for (const [post, leases] of due) void post.extend(leases);
}

function lookAt(
  watched: Watched,
  slot: number,
  now: number,
  wallNow: number,
  due: Map<Post, Due>,
): void {
  const { board, stamps, beats, since, lastBeat } = watched;
  const stamp = board.stamp(slot);
  if (stamp !== stamps[slot]) {
    stamps[slot] = stamp;
    since[slot] = now - Math.max(0, wallNow - board.since(slot));
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
