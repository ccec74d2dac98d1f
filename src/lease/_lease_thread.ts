import { settlesWithin } from "../_promises.ts";
import { systemClock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { OffThreadPlan } from "../mailbox/engine.ts";
import { knownRuntime, type ModuleThread } from "../runtime.ts";

/** How often and for how long a lease is extended. */
export interface LeaseTerms {
  readonly intervalMs: number;
  readonly extensionMs: number;
  /** Without a heartbeat for this long the lease is not extended. */
  readonly beatWithinMs: number;
}

/** With shorter intervals the thread connects at once: an overdue lease leaves no time for it. */
export const SHORT_INTERVAL_MS = 10_000;

/** What the main thread posts; everything else is in the tables. */
export type ThreadCommand =
  | { readonly kind: "table"; readonly memory: SharedArrayBuffer }
  | {
    readonly kind: "join";
    readonly group: number;
    readonly plan: OffThreadPlan;
    readonly terms: LeaseTerms;
  }
  | { readonly kind: "leave"; readonly group: number };

/** How long a loop with short leases waits for the thread before it receives. */
const START_TIMEOUT_MS = 5_000;

/** The thread of this process, while a loop uses it. */
let current: LeaseThread | undefined;

/** Warns once per process, not once per loop. */
let warned = false;

/**
 * A second thread that extends leases while a handler blocks the event loop of this one. The threads
 * share tables of leases in memory: this thread writes, the other reads. A process starts one thread.
 */
export class LeaseThread {
  readonly #thread: ModuleThread;
  readonly #tables: LeaseTable[] = [];
  readonly #freeSlots: number[] = [];
  readonly #groups = new Set<LeaseGroup>();
  #lastGroup = 0;

  private constructor(thread: ModuleThread) {
    this.#thread = thread;
  }

  /** Registers leases with these terms. Without an address, or where no thread can run: undefined. */
  static async join(
    address: string | undefined,
    plan: OffThreadPlan,
    terms: LeaseTerms,
    log: Log,
  ): Promise<LeaseGroup | undefined> {
    const startThread = knownRuntime()?.startThread;
    if (address === undefined || startThread === undefined) return undefined;
    try {
      current ??= new LeaseThread(startThread(address));
    } catch (error) {
      if (!warned) {
        log.warn("lease thread could not start; a handler that blocks may lose its lease", {
          error,
        });
      }
      warned = true;
      return undefined;
    }
    return await current.#join(plan, terms, log);
  }

  async #join(plan: OffThreadPlan, terms: LeaseTerms, log: Log): Promise<LeaseGroup> {
    const group = new LeaseGroup(this, ++this.#lastGroup);
    this.#groups.add(group);
    const joining = this.#thread.post(
      { kind: "join", group: group.number, plan, terms } as ThreadCommand,
    );
    const joined = joining.catch((error) => {
      if (!this.#groups.has(group)) return; // it left meanwhile; the thread may have ended
      log.warn(
        "lease thread failed; a handler that blocks may lose its lease. Set `lease: { offThread: " +
          "false }` to run without the thread",
        { error },
      );
    });
    // Longer leases leave the thread enough time to start.
    if (terms.intervalMs < SHORT_INTERVAL_MS) {
      await settlesWithin(joined, START_TIMEOUT_MS, systemClock);
    }
    return group;
  }

  leave(group: LeaseGroup): void {
    this.#tell({ kind: "leave", group: group.number });
    this.#groups.delete(group);
    if (this.#groups.size > 0) return;
    if (current === this) current = undefined;
    void this.#thread.stop();
  }

  /** Returns the slot of the lease, or -1 when the receipt handle does not fit. */
  write(group: number, receipt: string): number {
    const slot = this.#freeSlots.pop() ?? this.#addTable();
    if (this.table(slot).write(slot % SLOTS, group, receipt, systemClock.now())) return slot;
    this.#freeSlots.push(slot);
    return -1;
  }

  clear(slot: number): void {
    this.table(slot).clear(slot % SLOTS);
    this.#freeSlots.push(slot);
  }

  table(slot: number): LeaseTable {
    return this.#tables[Math.floor(slot / SLOTS)]!;
  }

  #addTable(): number {
    const table = new LeaseTable();
    this.#tell({ kind: "table", memory: table.memory });
    const first = this.#tables.push(table) * SLOTS - SLOTS;
    for (let i = SLOTS - 1; i > 0; i--) this.#freeSlots.push(first + i);
    return first;
  }

  #tell(command: ThreadCommand): void {
    // A thread that does not work has failed at `join`, which logged it.
    this.#thread.post(command).catch(() => {});
  }
}

/** Shows the leases of one mailbox with the same terms to the thread. A slot of -1 is none. */
export class LeaseGroup {
  readonly number: number;
  readonly #thread: LeaseThread;

  constructor(thread: LeaseThread, number: number) {
    this.#thread = thread;
    this.number = number;
  }

  /** Returns the slot of the lease, or -1 when the receipt handle does not fit. */
  add(receiptHandle: string): number {
    return this.#thread.write(this.number, receiptHandle);
  }

  extended(slot: number): void {
    if (slot >= 0) this.#thread.table(slot).extended(slot % SLOTS, systemClock.now());
  }

  beat(slot: number): void {
    if (slot >= 0) this.#thread.table(slot).beat(slot % SLOTS);
  }

  remove(slot: number): void {
    if (slot >= 0) this.#thread.clear(slot);
  }

  leave(): void {
    this.#thread.leave(this);
  }
}

/** Leases per table. */
export const SLOTS = 1_024;

/** The longest receipt handle that fits, in ASCII characters. */
const LONGEST_RECEIPT = 104;

/** The layout of a slot: four numbers, a time and the receipt handle. Stamp 0 is an empty slot. */
const STAMP = 0, GROUP = 1, BEATS = 2, LENGTH = 3, TIME = 4, RECEIPT = 6;
const SLOT_BYTES = 4 * RECEIPT + LONGEST_RECEIPT;

/**
 * A table of leases in memory that two threads share. The main thread writes and the lease thread reads,
 * also while the main thread is blocked. A slot that changes during a read has another stamp afterwards.
 */
export class LeaseTable {
  readonly memory: SharedArrayBuffer;
  readonly #numbers: Int32Array;
  readonly #times: Float64Array;
  readonly #bytes: Uint8Array;
  #lastStamp = 0;

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(SLOTS * SLOT_BYTES)) {
    this.memory = memory;
    this.#numbers = new Int32Array(memory);
    this.#times = new Float64Array(memory);
    this.#bytes = new Uint8Array(memory);
  }

  /** Returns false when the receipt handle does not fit; the slot is empty then. */
  write(slot: number, group: number, receipt: string, now: number): boolean {
    const { length } = receipt;
    if (length > LONGEST_RECEIPT) return false;
    const at = this.#at(slot);
    const begin = 4 * (at + RECEIPT);
    Atomics.store(this.#numbers, at + STAMP, 0);
    for (let i = 0; i < length; i++) {
      const code = receipt.charCodeAt(i);
      if (code > 0x7f) return false;
      this.#bytes[begin + i] = code;
    }
    this.#numbers[at + GROUP] = group;
    this.#numbers[at + LENGTH] = length;
    this.beat(slot);
    this.extended(slot, now);
    return true;
  }

  /** Restarts the time of the lease. */
  extended(slot: number, now: number): void {
    this.#times[(this.#at(slot) + TIME) / 2] = now;
    this.#lastStamp = this.#lastStamp % 0x7fff_ffff + 1;
    Atomics.store(this.#numbers, this.#at(slot) + STAMP, this.#lastStamp);
  }

  /** Counts a heartbeat of the handler. */
  beat(slot: number): void {
    Atomics.add(this.#numbers, this.#at(slot) + BEATS, 1);
  }

  clear(slot: number): void {
    Atomics.store(this.#numbers, this.#at(slot) + STAMP, 0);
  }

  stamp(slot: number): number {
    return Atomics.load(this.#numbers, this.#at(slot) + STAMP);
  }

  beats(slot: number): number {
    return Atomics.load(this.#numbers, this.#at(slot) + BEATS);
  }

  /** When the lease was written or extended, by the wall clock, which both threads share. */
  since(slot: number): number {
    return this.#times[(this.#at(slot) + TIME) / 2]!;
  }

  /** The group of the lease. */
  group(slot: number): number {
    return this.#numbers[this.#at(slot) + GROUP]!;
  }

  /** The receipt handle of the lease with this stamp; undefined when the slot has changed. */
  receipt(slot: number, stamp: number): string | undefined {
    const at = this.#at(slot);
    const begin = 4 * (at + RECEIPT);
    const codes = this.#bytes.slice(begin, begin + this.#numbers[at + LENGTH]!);
    return this.stamp(slot) === stamp ? String.fromCharCode(...codes) : undefined;
  }

  #at(slot: number): number {
    return slot * SLOT_BYTES / 4;
  }
}
