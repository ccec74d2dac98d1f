// The server of the simulated engine: the engine in memory behind a network, and the owners that it sees.

import type { Clock } from "../src/clock.ts";
import { type BoardEntry, MemoryStore } from "../src/coordination/board_store.ts";
import type { MemberStatus } from "../src/coordination/member_state.ts";
import type { Delivery, Entry, RateLimit } from "../src/mailbox/engine.ts";
import type { MemoryDelivery } from "../src/mailbox/_memory_line.ts";
import { MemoryEngine } from "../src/mailbox/memory_engine.ts";
import {
  copyOf,
  type Held,
  type LeaseTerms,
  type NackTerms,
  PLAIN,
  type ReceiveAnswer,
  type ReceiveTerms,
  type SettlementKind,
} from "./delivery.ts";
import { Waits } from "./handovers.ts";
import { EPOCH } from "./host.ts";
import type { Link } from "./link.ts";
import { BOARD } from "./member.ts";
import type { Ledger } from "./ledger.ts";
import type { Scheduler } from "./scheduler.ts";

/** A queue, and the queue of its dead letters. */
export interface Queue {
  readonly engine: MemoryEngine<string>;
  readonly letters: MemoryEngine<string>;
}

/**
 * Stores the messages of all queues, and the states of all members. Each call is one step. A restart keeps the
 * data and cuts the connections; a frozen server carries out its calls when it continues.
 */
export class Server {
  readonly ledger: Ledger;
  readonly board: MemoryStore;
  /** Whether messages are handed over to waiting receives. */
  readonly handsOver: boolean;
  readonly waits: Waits = new Waits(this);
  readonly scheduler: Scheduler;
  readonly #root: MemoryEngine<string>;
  readonly #queues = new Map<string, Queue>();
  readonly #links = new Set<Link>();
  readonly #held = new Map<string, Held>();
  /** How deliveries were settled, by receipt handle, for calls that are repeated. */
  readonly #spent = new Map<string, SettlementKind>();
  /** The processes that hold leases of each queue, as far as they have registered since the last restart. */
  readonly #owners = new Map<string, Map<string, Link>>();
  #up = true;
  #isSending = false;
  /** The end of the last restart or freeze. */
  #awayUntil = 0;
  #frozenCalls: (() => void)[] | undefined;

  constructor(scheduler: Scheduler, ledger: Ledger, handsOver: boolean) {
    const clock: Clock = {
      now: () => EPOCH + scheduler.now,
      monotonic: () => scheduler.now,
      schedule: (ms, task) => scheduler.after(ms, task),
      sleep: () => Promise.reject(new Error("The server does not wait")),
    };
    this.ledger = ledger;
    this.scheduler = scheduler;
    this.handsOver = handsOver;
    this.#root = new MemoryEngine<string>("root", Infinity, clock);
    this.board = new MemoryStore({ clock });
    this.board.onWake(() => this.#links.forEach((link) => link.wake(BOARD)));
  }

  join(link: Link): void {
    this.#links.add(link);
    if (this.#awayUntil > this.scheduler.now) link.disturb(this.#awayUntil - this.scheduler.now);
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
    this.#awayUntil = this.scheduler.now + ms;
    this.#owners.clear();
    this.waits.clear();
    this.#frozenCalls = undefined;
    for (const link of this.#links) {
      link.disturb(ms); // also one that was cut before, and connects again too early
      link.cut(ms);
    }
    this.scheduler.after(ms, () => void (this.#up = true));
  }

  /** Suspends the server for `ms`. */
  freeze(ms: number): void {
    if (!this.#up || this.#frozenCalls !== undefined) return;
    for (const link of this.#links) link.disturb(ms);
    this.#awayUntil = this.scheduler.now + ms;
    const calls = this.#frozenCalls = [];
    this.scheduler.after(ms, () => {
      if (this.#frozenCalls !== calls) return;
      this.#frozenCalls = undefined;
      for (const call of calls as (() => void)[]) call();
    });
  }

  engine(queue: string): MemoryEngine<string> {
    return this.queue(queue).engine;
  }

  queue(name: string): Queue {
    let queue = this.#queues.get(name);
    if (queue !== undefined) return queue;
    const engine = this.#root.queue(name);
    queue = { engine, letters: engine.deadLetters() };
    this.#queues.set(name, queue);
    engine.onWake(() => this.#isSending || this.#wake(name));
    engine.onCancel((id) => this.#links.forEach((link) => link.cancelled(name, id)));
    return queue;
  }

  /** Stores messages. A message that is handed over wakes no other receive. */
  send(link: Link, queue: string, entries: readonly Entry<string>[]): readonly boolean[] {
    const engine = this.engine(queue);
    this.#isSending = true;
    const stored = engine.send(entries);
    this.#isSending = false;
    entries.forEach((entry, i) => this.ledger.sent(link, queue, entry, stored[i]!));
    const [first] = entries;
    const isOne = entries.length === 1 && stored[0] === true && first!.delayMs === 0;
    // An earlier message, whose lease has just expired, may be handed over instead.
    if (!isOne || this.waits.handOver(queue) !== first!.id) this.#wake(queue);
    return stored;
  }

  #wake(queue: string): void {
    for (const link of this.#links) link.wake(queue);
  }

  receive(link: Link, queue: string, terms: ReceiveTerms): ReceiveAnswer {
    const { max, visibilityMs, callId, ends, receipt } = terms;
    const engine = this.engine(queue);
    this.register(link, queue);
    this.waits.end(ends);
    const { deliveries, nextDueMs } = engine.receive(max, visibilityMs);
    const copies = deliveries.map((it) =>
      this.hold(link, queue, it, { callId, visibilityMs }).copy
    );
    if (copies.length === 0) {
      this.ledger.foundNone(link, queue);
      if (receipt !== undefined) this.waits.add({ link, queue, receipt, visibilityMs });
    }
    const inFlight = (engine.stats().inFlight ?? 0) > 0;
    const at = this.scheduler.now;
    return { deliveries: copies, nextDueMs, now: EPOCH + at, at, inFlight };
  }

  /** Records a delivery. Returns the copy that travels to the process. */
  hold(
    link: Link,
    queue: string,
    it: Delivery<string>,
    { callId, ...terms }: LeaseTerms & { readonly callId: string },
  ): { readonly held: Held; readonly copy: Delivery<string> } {
    const delivery = it as MemoryDelivery<string>;
    const handle = `${queue}/${delivery.receiptHandle}`;
    const held: Held = { queue, handle, delivery, link, callId };
    this.#held.set(handle, held);
    this.ledger.delivered(held, terms);
    return { held, copy: copyOf(delivery, handle) };
  }

  /** Ends a delivery that no receive has returned. Counts no attempt. */
  takeBack(handle: string): void {
    const held = this.#held.get(handle);
    if (held === undefined) return;
    const [done] = this.engine(held.queue).nack([held.delivery], 0, false);
    this.#held.delete(handle);
    if (done) this.ledger.takenBack(held);
  }

  /** Settles deliveries. With `repeats` a call that was carried out before has the same result. */
  settle(
    link: Link,
    kind: SettlementKind,
    handles: readonly string[],
    repeats: readonly boolean[],
    act: (held: Held) => boolean,
    terms: NackTerms = PLAIN,
  ): readonly boolean[] {
    return handles.map((handle, i) => {
      const held = this.#held.get(handle);
      const done = held !== undefined && act(held);
      if (held !== undefined) this.ledger.settled(held, link, kind, { done, ...terms });
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
        this.ledger.leases.extendedSettled(handle);
        return false;
      }
      const [done = false] = this.engine(held.queue).extend([held.delivery], visibilityMs);
      if (done) this.waits.confirmed(handle);
      this.ledger.leases.extended(handle, { ms: visibilityMs, done });
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

  /** Ends the deliveries of receives whose answers were lost. */
  undo(queue: string, callIds: readonly string[]): void {
    for (const { handle, callId, queue: heldOf } of [...this.#held.values()]) {
      if (heldOf === queue && callIds.includes(callId)) this.takeBack(handle);
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
      const [done] = this.engine(queue).nack([held.delivery], 0, true);
      this.#held.delete(held.handle);
      if (!done) continue;
      held.delivery.slot.leaseExpiries++;
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
