import { Heap, type HeapItem } from "../../_heap.ts";
import type { Cancel } from "../../clock.ts";
import { NAK, nakAfter } from "./_calls.ts";
import type { Queue } from "./_queue.ts";

/**
 * How much longer a lease lasts on the server than in this process. An ack that is sent just before the
 * lease expires has this time to arrive.
 */
export const MARGIN_MS = 1_000;

/**
 * A lease that is still active after this time is extended on the server. Most messages are settled
 * earlier.
 */
const EXTEND_AFTER_MS = 1_000;

/**
 * The margin of a delayed message. This process makes it visible at the exact time; the server does so
 * later.
 */
const DELAY_MARGIN_MS = 200;

/** Longer delays need no exact time. */
const MAX_EXACT_DELAY_MS = 60_000;

/** Timers may fire this much too early. */
const EARLY_MS = 1;

/** A delivery with a lease, or a message that becomes visible after a delay. Times are monotonic. */
export interface Leased extends HeapItem {
  readonly seq: number;
  readonly ackSubject: string;
  readonly deliveryCount: number;
  /** When the lease needs its next action. */
  actionAt: number;
  /** Until when the server certainly hides the message from other receivers. */
  validUntil: number;
  /** Until when the lease should last. */
  requestedUntil: number;
  /** How much longer the lease lasts on the server. */
  readonly marginMs: number;
}

/**
 * The leases of deliveries.
 *
 * The server accepts an ack from an expired lease and would remove a message that another receiver holds.
 * Therefore each lease expires here before it expires on the server, and an expired delivery sends no
 * acks.
 *
 * - The server hides every delivery for its `ack_wait`. A shorter lease is sent to the server
 *   immediately, a longer one after a second, when most messages are settled. Until the server confirms a
 *   longer lease, only `ack_wait` counts.
 * - When a lease expires, this process releases the message immediately. If the process is gone, the
 *   server makes the message visible one margin later.
 *
 * All leases share one timer.
 */
export class Leases {
  readonly #queue: Queue;
  /** Ordered by the next action. */
  readonly #leased = new Heap<Leased>((a, b) => a.actionAt < b.actionAt);
  #releasing: Promise<void> | undefined;
  #timerAt = Infinity;
  #cancel: Cancel | undefined;
  #closed = false;

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /**
   * Starts the leases of deliveries. `deliveredAt` is the earliest time at which the server sent them.
   */
  begin(
    deliveries: readonly Leased[],
    deliveredAt: number,
    visibilityMs: number,
    ackWaitMs: number,
  ): void {
    const now = this.#queue.clock.monotonic();
    const serverUntil = deliveredAt + ackWaitMs - MARGIN_MS;
    const short = visibilityMs + MARGIN_MS < ackWaitMs;
    for (const delivery of deliveries) {
      delivery.requestedUntil = now + visibilityMs;
      delivery.validUntil = Math.min(delivery.requestedUntil, serverUntil);
      delivery.actionAt = short ? delivery.validUntil : now + EXTEND_AFTER_MS;
      this.#leased.push(delivery);
    }
    if (short) this.#queue.calls.publishAcks(deliveries, () => nakAfter(visibilityMs + MARGIN_MS));
    this.#setTimer();
  }

  /** Returns true while the delivery can be settled. */
  isActive(delivery: Leased): boolean {
    return delivery.place >= 0 && delivery.validUntil > this.#queue.clock.monotonic() + EARLY_MS;
  }

  /** Ends a lease before its ack is sent. */
  end(delivery: Leased): void {
    if (delivery.place >= 0) this.#leased.remove(delivery);
  }

  /** Restores a lease whose ack failed, so that the caller can try again. */
  resume(delivery: Leased): void {
    delivery.actionAt = this.#queue.clock.monotonic() + EXTEND_AFTER_MS;
    this.#leased.push(delivery);
    this.#setTimer();
  }

  /** Makes deliveries without a lease visible after a delay. */
  async nackAfter<L extends Leased>(
    what: string,
    deliveries: readonly L[],
    delayOf: (delivery: L) => number,
  ): Promise<void> {
    const now = this.#queue.clock.monotonic();
    const naks = new Map(deliveries.map((it) => [it, nakFor(delayOf(it))]));
    await this.#queue.calls.settle(what, deliveries, (it) => naks.get(it)!.ack);
    for (const [{ seq, ackSubject, deliveryCount }, { delayMs }] of naks) {
      if (delayMs <= 0 || delayMs > MAX_EXACT_DELAY_MS) continue;
      const at = now + delayMs;
      const times = { actionAt: at, validUntil: at, requestedUntil: at, marginMs: DELAY_MARGIN_MS };
      this.#leased.push({ seq, ackSubject, deliveryCount, place: -1, ...times });
    }
    this.#setTimer();
  }

  /** Extends leases to `visibilityMs` from now. Never shortens one. */
  async extend(
    what: string,
    deliveries: readonly Leased[],
    visibilityMs: number,
  ): Promise<void> {
    const until = this.#queue.clock.monotonic() + visibilityMs;
    await this.#extendTo(
      what,
      deliveries.filter((it) => until > it.requestedUntil || it.validUntil < it.requestedUntil),
      until,
    );
  }

  /** Checks that the server still has the delivery. Rejects when it does not. */
  async confirm(what: string, delivery: Leased): Promise<void> {
    await this.#extendTo(what, [delivery], 0);
  }

  /** Releases expired deliveries. Resolves when other receivers can see them. */
  releaseExpired(): Promise<void> | undefined {
    this.#processDue();
    return this.#releasing;
  }

  /** Drops all leases, so that none can be settled. */
  clear(): void {
    this.#leased.clear();
    this.#cancel?.();
    this.#timerAt = Infinity;
  }

  /** Drops all leases for good. A failing ack must not start a timer that keeps the process alive. */
  close(): void {
    this.#closed = true;
    this.clear();
  }

  /** Returns the current leases by sequence number. */
  bySequence(): ReadonlyMap<number, Leased> {
    return new Map(this.#leased.values().map((delivery) => [delivery.seq, delivery]));
  }

  async #extendTo(what: string, deliveries: readonly Leased[], until: number): Promise<void> {
    const now = this.#queue.clock.monotonic();
    const untils = new Map(deliveries.map((it) => [it, Math.max(it.requestedUntil, until)]));
    await this.#queue.calls.settle(
      what,
      deliveries,
      (it) => nakAfter(untils.get(it)! - now + MARGIN_MS),
    );
    for (const [delivery, end] of untils) {
      if (delivery.place < 0) continue; // settled in the meantime
      delivery.requestedUntil = Math.max(delivery.requestedUntil, end);
      delivery.validUntil = delivery.actionAt = delivery.requestedUntil;
      this.#leased.moved(delivery);
    }
    this.#setTimer();
  }

  #setTimer(): void {
    const at = this.#leased.peek()?.actionAt ?? Infinity;
    if (this.#closed || at >= this.#timerAt) return;
    this.#cancel?.();
    this.#timerAt = at;
    const ms = Math.max(0, at - this.#queue.clock.monotonic());
    this.#cancel = this.#queue.clock.schedule(ms, () => {
      this.#timerAt = Infinity;
      this.#processDue();
    });
  }

  /** Releases expired leases and extends the others. */
  #processDue(): void {
    const now = this.#queue.clock.monotonic() + EARLY_MS;
    const expired: Leased[] = [];
    const current: Leased[] = [];
    for (let top = this.#leased.peek(); top && top.actionAt <= now; top = this.#leased.peek()) {
      this.#leased.remove(top);
      if (top.validUntil > now) current.push(top);
      // Later the server has released it, and another receiver may hold it.
      else if (now < top.validUntil + top.marginMs / 2) expired.push(top);
    }
    for (const delivery of current) {
      delivery.actionAt = now + EXTEND_AFTER_MS; // retry if the server does not confirm
      this.#leased.push(delivery);
    }
    if (expired.length > 0) this.#release(expired);
    if (current.length > 0) {
      this.#queue.calls.track(this.#extendTo("extend", current, 0)).catch((error) => {
        const { mailbox, log } = this.#queue;
        log.debug("cannot extend leases on NATS; the engine tries again", { mailbox, error });
      });
    }
    this.#setTimer();
  }

  #release(expired: readonly Leased[]): void {
    const { mailbox, calls, log } = this.#queue;
    const released = calls.settle("release", expired, () => NAK).catch((error) => {
      log.debug("cannot release expired messages on NATS; the server does it", { mailbox, error });
    });
    const releasing = Promise.all([this.#releasing, released]).then(() => {
      if (this.#releasing === releasing) this.#releasing = undefined;
    });
    this.#releasing = releasing;
    calls.track(releasing);
  }
}

function nakFor(delayMs: number): { readonly delayMs: number; readonly ack: Uint8Array } {
  if (delayMs <= 0) return { delayMs, ack: NAK };
  const marginMs = delayMs <= MAX_EXACT_DELAY_MS ? DELAY_MARGIN_MS : 0;
  return { delayMs, ack: nakAfter(delayMs + marginMs) };
}
