// What the lease thread runs. The thread loads this module by its address.

import { systemClock } from "../clock.ts";
import type { OffThreadExtender, OffThreadModule, OffThreadPlan } from "../mailbox/engine.ts";
import { threadModuleUrl } from "../runtime.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";
import {
  LeaseTable,
  type LeaseTerms,
  SHORT_INTERVAL_MS,
  SLOTS,
  type ThreadCommand,
} from "./_lease_thread.ts";

/** The address that the thread loads this module from. */
export const address: string | undefined = threadModuleUrl(import.meta.url, "_lease_thread_main");

/** How often the thread reads a lease before it is due. */
const CHECKS_PER_INTERVAL = 4;

/** What the thread has read from the slots of one table. */
interface WatchedTable {
  readonly table: LeaseTable;
  readonly stamps: Int32Array;
  readonly beats: Int32Array;
  /** When this thread first read the stamp, or extended the lease. */
  readonly since: Float64Array;
  readonly lastBeat: Float64Array;
}

/** The leases of one group that are due. */
interface Due {
  readonly receipts: string[];
  /** Called with the result for each. */
  readonly onResult: ((held: boolean) => void)[];
}

/** Extends the leases of one group. Connects when the first lease is overdue, unless they are short. */
class GroupExtender {
  readonly terms: LeaseTerms;
  readonly #options: unknown;
  readonly #loading: Promise<OffThreadModule>;
  #opening: Promise<OffThreadExtender> | undefined;
  #busy = false;

  constructor(plan: OffThreadPlan, terms: LeaseTerms) {
    this.#options = plan.options;
    this.terms = terms;
    this.#loading = loadModule(plan.engine);
  }

  /** Does early what would take too long once a lease is overdue. */
  async prepare(): Promise<void> {
    await this.#loading;
    if (this.terms.intervalMs < SHORT_INTERVAL_MS) await (this.#opening ??= this.#open());
  }

  async extend({ receipts, onResult }: Due): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      const extender = await (this.#opening ??= this.#open());
      for (let from = 0; from < receipts.length; from += MAX_BATCH) {
        const batch = receipts.slice(from, from + MAX_BATCH);
        const held = await extender.extend(batch, this.terms.extensionMs);
        for (const i of batch.keys()) onResult[from + i]!(held[i] === true);
      }
    } catch {
      // The engine is unavailable: the leases are still overdue at the next check.
    } finally {
      this.#busy = false;
    }
  }

  async close(): Promise<void> {
    await (await this.#opening?.catch(() => undefined))?.close();
  }

  async #open(): Promise<OffThreadExtender> {
    try {
      return await (await this.#loading).openExtender(this.#options);
    } catch (error) {
      this.#opening = undefined;
      throw error;
    }
  }
}

/** Returns the module of an engine of this package, or the one at a URL. */
async function loadModule(engine: string): Promise<OffThreadModule> {
  const { ENGINES } = await import("../engines/registry.ts");
  const openExtender = ENGINES.find(({ name }) => name === engine)?.openExtender;
  return openExtender === undefined ? await import(engine) : { openExtender };
}

const groups = new Map<number, GroupExtender>();
const tables: WatchedTable[] = [];
let cancelCheck: (() => void) | undefined;

/** Called by the thread for each command of the main thread. */
export async function onPost(command: ThreadCommand): Promise<void> {
  if (command.kind === "table") {
    tables.push(watch(new LeaseTable(command.memory)));
  } else if (command.kind === "join") {
    const group = new GroupExtender(command.plan, command.terms);
    groups.set(command.group, group);
    check();
    await group.prepare();
  } else {
    const group = groups.get(command.group);
    groups.delete(command.group);
    await group?.close();
  }
}

function watch(table: LeaseTable): WatchedTable {
  return {
    table,
    stamps: new Int32Array(SLOTS),
    beats: new Int32Array(SLOTS),
    since: new Float64Array(SLOTS),
    lastBeat: new Float64Array(SLOTS),
  };
}

/**
 * Extends the leases that are overdue because the main thread is blocked. The threads share only the wall
 * clock, which can be set: the age of a lease is what the wall clock says, or the time since this thread
 * first read it if that is longer. Extending a lease too early does no harm.
 */
function check(): void {
  cancelCheck?.();
  const intervals = [...groups.values()].map(({ terms }) => terms.intervalMs);
  cancelCheck = systemClock.schedule(Math.min(...intervals) / CHECKS_PER_INTERVAL, check);
  const [now, wallNow] = [systemClock.monotonic(), systemClock.now()];
  const due = new Map<GroupExtender, Due>();
  for (const watched of tables) {
    for (let slot = 0; slot < SLOTS; slot++) checkSlot(watched, slot, now, wallNow, due);
  }
  for (const [group, leases] of due) void group.extend(leases);
}

function checkSlot(
  watched: WatchedTable,
  slot: number,
  now: number,
  wallNow: number,
  due: Map<GroupExtender, Due>,
): void {
  const { table, stamps, beats, since, lastBeat } = watched;
  const stamp = table.stamp(slot);
  if (stamp !== stamps[slot]) {
    stamps[slot] = stamp;
    since[slot] = now - Math.max(0, wallNow - table.since(slot));
  }
  if (stamp === 0) return;
  const beat = table.beats(slot);
  if (beat !== beats[slot]) {
    beats[slot] = beat;
    lastBeat[slot] = now;
  }
  const group = groups.get(table.group(slot));
  if (group === undefined || now - since[slot]! < group.terms.intervalMs) return;
  if (now - lastBeat[slot]! > group.terms.beatWithinMs) return;
  const receipt = table.receipt(slot, stamp);
  if (receipt === undefined) return;
  const { receipts, onResult } = due.get(group) ?? { receipts: [], onResult: [] };
  receipts.push(receipt);
  onResult.push((held) => {
    // A lost lease is skipped until another one has its slot.
    if (stamps[slot] === stamp) since[slot] = held ? systemClock.monotonic() : Infinity;
  });
  due.set(group, { receipts, onResult });
}
