import { settlesWithin } from "../_promises.ts";
import { systemClock } from "../clock.ts";
import { knownRuntime, type ModuleThread } from "../runtime.ts";
import type { Log } from "../log.ts";
import type { LeaseKeepingPlan } from "../mailbox/lease_keeping.ts";
import {
  type KeptLease,
  type LeaseMirror,
  type LeaseTerms,
  SHORT_INTERVAL_MS,
} from "./_kept_lease.ts";
import type { Posting } from "./_keeper_thread.ts";
import { LeaseBoard, SLOTS } from "./_lease_board.ts";

/** How long a loop waits for the thread before it takes messages with a short lease. */
const PATIENCE_MS = 5_000;

/** The one of this process, as long as somebody needs it. */
let current: OffThread | undefined;

/** Every loop would find out the same. */
let saidUnavailable = false;

/**
 * A thread that extends leases when this one does not get to it, because a handler blocks the event loop.
 * A process has one, as long as there are loops that need it.
 */
export class OffThread {
  readonly #thread: ModuleThread;
  readonly #boards: LeaseBoard[] = [];
  readonly #freeSlots: number[] = [];
  readonly #members = new Set<LeasePost>();
  #lastPost = 0;

  private constructor(thread: ModuleThread) {
    this.#thread = thread;
  }

  /** Leases of these terms are kept from there too. Undefined where that cannot be had. */
  static async join(
    plan: LeaseKeepingPlan,
    terms: LeaseTerms,
    log: Log,
  ): Promise<LeasePost | undefined> {
    const { address } = await import("./_keeper_thread.ts");
    const startThread = knownRuntime()?.startThread;
    if (address === undefined || startThread === undefined) return undefined;
    try {
      current ??= new OffThread(startThread(address));
    } catch (error) {
      if (!saidUnavailable) {
        log.warn("Cannot start the thread that extends leases while a handler blocks", { error });
      }
      saidUnavailable = true;
      return undefined;
    }
    return await current.#join(plan, terms, log);
  }

  async #join(plan: LeaseKeepingPlan, terms: LeaseTerms, log: Log): Promise<LeasePost> {
    const post = new LeasePost(this, ++this.#lastPost);
    this.#members.add(post);
    const joining = this.#thread.post({ kind: "join", post: post.number, plan, terms } as Posting);
    const joined = joining.catch((error) => {
      if (!this.#members.has(post)) return; // it has left meanwhile, and the thread may have ended
      log.warn(
        "leases cannot be kept while the event loop is blocked; `lease: { offThread: false }` does " +
          "without that",
        { error },
      );
    });
    // A longer lease gives the thread all the time it needs.
    if (terms.intervalMs < SHORT_INTERVAL_MS) await settlesWithin(joined, PATIENCE_MS, systemClock);
    return post;
  }

  leave(post: LeasePost): void {
    this.#tell({ kind: "leave", post: post.number });
    this.#members.delete(post);
    if (this.#members.size > 0) return;
    if (current === this) current = undefined;
    void this.#thread.stop();
  }

  /** Where the lease was written; -1 when it could not be. */
  write(post: number, receipt: string): number {
    const slot = this.#freeSlots.pop() ?? this.#extend();
    if (this.board(slot).write(slot % SLOTS, post, receipt, systemClock.now())) return slot;
    this.#freeSlots.push(slot);
    return -1;
  }

  clear(slot: number): void {
    this.board(slot).clear(slot % SLOTS);
    this.#freeSlots.push(slot);
  }

  board(slot: number): LeaseBoard {
    return this.#boards[Math.floor(slot / SLOTS)]!;
  }

  #extend(): number {
    const board = new LeaseBoard();
    this.#tell({ kind: "board", memory: board.memory });
    const first = this.#boards.push(board) * SLOTS - SLOTS;
    for (let i = SLOTS - 1; i > 0; i--) this.#freeSlots.push(first + i);
    return first;
  }

  #tell(posting: Posting): void {
    // Where the thread does not work, its first answer has said so.
    this.#thread.post(posting).catch(() => {});
  }
}

/** The place for leases of one mailbox and of the same terms. */
export class LeasePost implements LeaseMirror {
  readonly number: number;
  readonly #offThread: OffThread;

  constructor(offThread: OffThread, number: number) {
    this.#offThread = offThread;
    this.number = number;
  }

  put(lease: KeptLease): void {
    lease.slot = this.#offThread.write(this.number, lease.message.receiptHandle);
  }

  renew({ slot }: KeptLease): void {
    if (slot >= 0) this.#offThread.board(slot).renew(slot % SLOTS, systemClock.now());
  }

  beat({ slot }: KeptLease): void {
    if (slot >= 0) this.#offThread.board(slot).beat(slot % SLOTS);
  }

  remove(lease: KeptLease): void {
    if (lease.slot >= 0) this.#offThread.clear(lease.slot);
    lease.slot = -1;
  }

  leave(): void {
    this.#offThread.leave(this);
  }
}
