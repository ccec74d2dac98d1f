// The server of the simulated engine: the engine in memory behind a network, and the owners that it sees.

import type { Clock } from "../src/clock.ts";
import { type BoardEntry, MemoryStore } from "../src/coordination/board_store.ts";
import type { MemberStatus } from "../src/coordination/member_state.ts";
import type { Delivery, Entry, RateLimit, Received } from "../src/mailbox/engine.ts";
import type { MemoryDelivery } from "../src/mailbox/_memory_lines.ts";
import { MemoryEngine } from "../src/mailbox/memory_engine.ts";
import { EPOCH } from "./host.ts";
import type { Link } from "./link.ts";
import { BOARD } from "./member.ts";
import type { Ledger } from "./ledger.ts";
import type { Scheduler } from "./scheduler.ts";

/** How a delivery was settled. */
export type SettlementKind = "acknowledge" | "nack" | "release" | "deadLetter";

/** A delivery as the server knows it. */
export interface Held {
  readonly queue: string;
  readonly handle: string;
  readonly delivery: MemoryDelivery<string>;
  readonly link: Link;
  readonly callId: string;
}

/** The answer to a receive. */
export interface ReceiveAnswer extends Received<string> {
  /** Whether messages of the queue are in flight: their owners may die. */
  readonly inFlight: boolean;
}

/**
 * Stores the messages of all queues, and the states of all members. Each call is one step. A restart keeps the
 * data and cuts the connections; a frozen server carries out its calls when it continues.
 */
export class Server {
  readonly ledger: Ledger;
  readonly board: MemoryStore;
  readonly #scheduler: Scheduler;
  readonly #root: MemoryEngine<string>;
  readonly #engines = new Map<string, MemoryEngine<string>>();
  readonly #links = new Set<Link>();
  readonly #held = new Map<string, Held>();
  /** How deliveries were settled, by receipt handle, for calls that are repeated. */
  readonly #spent = new Map<string, SettlementKind>();
  /** The processes that hold leases of each queue, as far as they have registered since the last restart. */
  readonly #owners = new Map<string, Map<string, Link>>();
  #up = true;
  /** The end of the last restart or freeze. */
  #awayUntil = 0;
  #frozenCalls: (() => void)[] | undefined;

  constructor(scheduler: Scheduler, ledger: Ledger) {
    const clock: Clock = {
      now: () => EPOCH + scheduler.now,
      monotonic: () => scheduler.now,
      schedule: (ms, task) => scheduler.after(ms, task),
      sleep: () => Promise.reject(new Error("The server does not wait")),
    };
    this.ledger = ledger;
    this.#scheduler = scheduler;
    this.#root = new MemoryEngine<string>("root", Infinity, clock);
    this.board = new MemoryStore({ clock });
    this.board.onWake(() => this.#links.forEach((link) => link.wake(BOARD)));
  }

  join(link: Link): void {
    this.#links.add(link);
    if (this.#awayUntil > this.#scheduler.now) link.disturb(this.#awayUntil - this.#scheduler.now);
  }

  /** Carries out a call that has arrived. */
  handle(act: () => void, refuse: () => void): void {
    if (!this.#up) refuse();
    else if (this.#frozenCalls !== undefined) this.#frozenCalls.push(act);
    else act();
  }

  /** Ends the server and starts it again after `ms`. */
  restart(ms: number): void {
    this.#up = false;
    this.#awayUntil = this.#scheduler.now + ms;
    this.#owners.clear();
    this.#frozenCalls = undefined;
    for (const link of this.#links) link.cut(ms);
    this.#scheduler.after(ms, () => void (this.#up = true));
  }

  /** Suspends the server for `ms`. */
  freeze(ms: number): void {
    if (!this.#up || this.#frozenCalls !== undefined) return;
    for (const link of this.#links) link.disturb(ms);
    this.#awayUntil = this.#scheduler.now + ms;
    const calls = this.#frozenCalls = [];
    this.#scheduler.after(ms, () => {
      if (this.#frozenCalls !== calls) return;
      this.#frozenCalls = undefined;
      for (const call of calls as (() => void)[]) call();
    });
  }

  engine(queue: string): MemoryEngine<string> {
    let engine = this.#engines.get(queue);
    if (engine !== undefined) return engine;
    engine = this.#root.queue(queue);
    this.#engines.set(queue, engine);
    engine.onWake(() => this.#links.forEach((link) => link.wake(queue)));
    engine.onCancel((id) => this.#links.forEach((link) => link.cancelled(queue, id)));
    return engine;
  }

  send(link: Link, queue: string, entries: readonly Entry<string>[]): readonly boolean[] {
    const stored = this.engine(queue).send(entries);
    entries.forEach((entry, i) => this.ledger.sent(link, queue, entry, stored[i]!));
    return stored;
  }

  receive(
    link: Link,
    queue: string,
    options: { readonly max: number; readonly visibilityMs: number; readonly callId: string },
  ): ReceiveAnswer {
    const { max, visibilityMs, callId } = options;
    const engine = this.engine(queue);
    this.register(link, queue);
    const { deliveries, nextDueMs } = engine.receive(max, visibilityMs);
    const copies = deliveries.map((it) => {
      const delivery = it as MemoryDelivery<string>;
      const handle = `${queue}/${delivery.receiptHandle}`;
      const held: Held = { queue, handle, delivery, link, callId };
      this.#held.set(handle, held);
      this.ledger.delivered(held, this.#scheduler.now + visibilityMs);
      return copyOf(delivery, handle);
    });
    if (copies.length === 0) this.ledger.foundNone(link, queue);
    const inFlight = (engine.stats().inFlight ?? 0) > 0;
    return { deliveries: copies, nextDueMs, now: EPOCH + this.#scheduler.now, inFlight };
  }

  /** Settles deliveries. With `repeats` a call that was carried out before has the same result. */
  settle(
    link: Link,
    kind: SettlementKind,
    handles: readonly string[],
    repeats: readonly boolean[],
    act: (held: Held) => boolean,
    countsAttempt = true,
  ): readonly boolean[] {
    return handles.map((handle, i) => {
      const held = this.#held.get(handle);
      const done = held !== undefined && act(held);
      if (held !== undefined) this.ledger.settled(held, link, kind, { done, countsAttempt });
      if (done) {
        this.#held.delete(handle);
        this.#spent.set(handle, kind);
      }
      return done || repeats[i] === true && this.#spent.get(handle) === kind;
    });
  }

  extend(handles: readonly string[], visibilityMs: number): readonly boolean[] {
    return handles.map((handle) => {
      const held = this.#held.get(handle);
      if (held === undefined) {
        this.ledger.extendedSettled(handle);
        return false;
      }
      const [done = false] = this.engine(held.queue).extend([held.delivery], visibilityMs);
      this.ledger.extended(held, this.#scheduler.now + visibilityMs, done);
      return done;
    });
  }

  checkpoint(handle: string, checkpoint: string): boolean {
    const held = this.#held.get(handle);
    if (held === undefined) return false;
    const done = this.engine(held.queue).checkpoint(held.delivery, checkpoint);
    if (done) this.ledger.checkpoint(held);
    return done;
  }

  cancel(queue: string, id: string): boolean {
    const done = this.engine(queue).cancel(id);
    if (done) this.ledger.cancelled(queue, id);
    return done;
  }

  pause(queue: string, forMs: number): void {
    this.engine(queue).pause(forMs);
    this.ledger.idle.paused(queue, forMs);
  }

  rateLimit(queue: string, limit: RateLimit | undefined): void {
    this.engine(queue).rateLimit(limit);
  }

  /** Releases what receives have delivered whose answers were lost. */
  undo(link: Link, queue: string, callIds: readonly string[]): void {
    for (const held of [...this.#held.values()]) {
      if (held.queue !== queue || !callIds.includes(held.callId)) continue;
      this.settle(link, "release", [held.handle], [], ({ delivery }) => {
        return this.engine(queue).release([delivery])[0]!;
      });
    }
  }

  /** Writes states of members. */
  writeBoard(entries: readonly BoardEntry[]): Promise<readonly MemberStatus[]> {
    const written = this.board.write(entries);
    for (const { agentId, state } of entries) this.ledger.members.set(agentId, state);
    return written;
  }

  /** The owners of the queue that the server does not see, without the caller. */
  absentOwners(link: Link, queue: string): readonly string[] {
    this.register(link, queue);
    return [...this.#owners.get(queue)!].flatMap(([name, it]) => it.connected ? [] : [name]);
  }

  /** Ends the leases of an owner. Returns how many there were. */
  expireOwner(queue: string, name: string): number {
    const owner = this.#owners.get(queue)?.get(name);
    if (owner === undefined || owner.connected) return 0; // it is back
    this.#owners.get(queue)!.delete(name);
    const leases = [...this.#held.values()].filter((it) => it.queue === queue && it.link === owner);
    let expired = 0;
    for (const held of leases) {
      const { delivery, handle } = held;
      const [done] = this.engine(queue).nack([delivery], 0, true);
      this.#held.delete(handle);
      if (!done) continue;
      delivery.slot.leaseExpiries++;
      expired++;
      this.ledger.ownerExpired(held);
    }
    return expired;
  }

  /** Registers a process that receives from the queue, so that others notice its death. */
  register(link: Link, queue: string): void {
    const owners = this.#owners.get(queue) ?? new Map<string, Link>();
    this.#owners.set(queue, owners.set(link.host.name, link));
  }

  /** Whether the process is registered. */
  owns(link: Link, queue: string): boolean {
    return this.#owners.get(queue)?.get(link.host.name) === link;
  }

  /** Forgets an owner that has closed its mailbox. */
  unregister(link: Link, queue: string): void {
    this.#owners.get(queue)?.delete(link.host.name);
  }
}

/** A delivery as it travels to the process. */
function copyOf(delivery: MemoryDelivery<string>, receiptHandle: string): Delivery<string> {
  const { id, body, meta, deliveryCount, leaseExpiries, enqueuedAt, checkpoint } = delivery;
  return { id, body, meta, receiptHandle, deliveryCount, leaseExpiries, enqueuedAt, checkpoint };
}
