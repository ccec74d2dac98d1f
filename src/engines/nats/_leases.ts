import { Heap, type HeapItem } from "../../_heap.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Calls } from "./_calls.ts";
import { BACK, backIn, type Verdicts } from "./_verdicts.ts";

/**
 * So much longer than here a lease lasts on the server. Whatever is said about a delivery just before its
 * lease ends has this much time to get there.
 */
export const MARGIN_MS = 1_000;

/** What is not done by then gets its lease on the server; most messages are, and need none. */
const SETTLE_IN_MS = 1_000;

/** Likewise for what was given back with a delay: it is made visible to the moment from here. */
const RETURN_MARGIN_MS = 200;

/** With a longer delay the moment does not matter. */
const LONGEST_RETURN_MS = 60_000;

/** Timers are early by so much at times. */
const EARLY_MS = 1;

/** What has a lease, or comes back after a delay. Times are those of the monotonic clock. */
export interface Leased extends HeapItem {
  readonly seq: number;
  readonly ackSubject: string;
  readonly deliveryCount: number;
  /** When it needs something. */
  attendAt: number;
  /** Until when the server is sure to keep it. */
  heldUntil: number;
  /** Until when it is to be kept. */
  wantedUntil: number;
  /** How much longer it lasts on the server. */
  readonly marginMs: number;
}

/**
 * The leases of deliveries.
 *
 * The server cannot tell a stale verdict from a good one: it would remove a message that somebody else
 * has by now. So each delivery has its end here, which comes before the server's, and nothing is said
 * about it afterwards.
 *
 * - The server itself keeps every delivery for its `ack_wait`. A lease that is shorter is told to it at
 *   once, a longer one after a second, when most messages are done; until it has confirmed that, only
 *   what it is sure to keep is counted on.
 * - At the end of its lease a message is given back at once. Where nobody is left to do so it comes back
 *   by itself, one margin later.
 *
 * One timer serves them all.
 */
export class Leases {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #calls: Calls;
  readonly #verdicts: Verdicts;
  /** By when they need something. */
  readonly #held = new Heap<Leased>((a, b) => a.attendAt < b.attendAt);
  #returning: Promise<void> | undefined;
  #timerAt = Infinity;
  #cancel: Cancel | undefined;
  #closed = false;

  constructor(clock: Clock, log: Log, calls: Calls, verdicts: Verdicts) {
    this.#clock = clock;
    this.#log = log;
    this.#calls = calls;
    this.#verdicts = verdicts;
  }

  /** Begins the leases of what the server has delivered, not before `deliveredAt`. */
  begin(
    deliveries: readonly Leased[],
    deliveredAt: number,
    visibilityMs: number,
    ackWaitMs: number,
  ): void {
    const now = this.#clock.monotonic();
    const sureUntil = deliveredAt + ackWaitMs - MARGIN_MS;
    const short = visibilityMs + MARGIN_MS < ackWaitMs;
    for (const delivery of deliveries) {
      delivery.wantedUntil = now + visibilityMs;
      delivery.heldUntil = Math.min(delivery.wantedUntil, sureUntil);
      delivery.attendAt = short ? delivery.heldUntil : now + SETTLE_IN_MS;
      this.#held.push(delivery);
    }
    if (short) this.#verdicts.say(deliveries, () => backIn(visibilityMs + MARGIN_MS));
    this.#setTimer();
  }

  /** True while a delivery has a say. */
  holds(delivery: Leased): boolean {
    return delivery.place >= 0 && delivery.heldUntil > this.#clock.monotonic() + EARLY_MS;
  }

  /** A verdict is about to be sent: nothing else is to be said about it. */
  end(delivery: Leased): void {
    if (delivery.place >= 0) this.#held.remove(delivery);
  }

  /** The verdict did not get there, and may be repeated while the lease lasts. */
  resume(delivery: Leased): void {
    delivery.attendAt = this.#clock.monotonic() + SETTLE_IN_MS;
    this.#held.push(delivery);
    this.#setTimer();
  }

  /** Gives back what has no lease any more, to be there for others after a delay. */
  async giveBackIn<L extends Leased>(
    what: string,
    deliveries: readonly L[],
    delayOf: (delivery: L) => number,
  ): Promise<void> {
    const now = this.#clock.monotonic();
    const returns = new Map(deliveries.map((it) => [it, returnIn(delayOf(it))]));
    await this.#verdicts.confirm(what, deliveries, (it) => returns.get(it)!.verdict);
    for (const [{ seq, ackSubject, deliveryCount }, { delayMs }] of returns) {
      if (delayMs <= 0 || delayMs > LONGEST_RETURN_MS) continue;
      const at = now + delayMs;
      const times = { attendAt: at, heldUntil: at, wantedUntil: at, marginMs: RETURN_MARGIN_MS };
      this.#held.push({ seq, ackSubject, deliveryCount, place: -1, ...times });
    }
    this.#setTimer();
  }

  /** Makes leases last until `visibilityMs` from now, or longer if they do already. */
  async extend(
    what: string,
    deliveries: readonly Leased[],
    visibilityMs: number,
  ): Promise<void> {
    const until = this.#clock.monotonic() + visibilityMs;
    await this.#keep(
      what,
      deliveries.filter((it) => until > it.wantedUntil || it.heldUntil < it.wantedUntil),
      until,
    );
  }

  /** Has the server keep what it keeps; rejects when it knows nothing of it any more. */
  async confirm(what: string, delivery: Leased): Promise<void> {
    await this.#keep(what, [delivery], 0);
  }

  /** Gives back whatever has reached the end of its lease; resolves when that is there for others. */
  giveBackEnded(): Promise<void> | undefined {
    this.#attend();
    return this.#returning;
  }

  /** Nobody has a say about anything any more. */
  forget(): void {
    this.#held.clear();
    this.#cancel?.();
    this.#timerAt = Infinity;
  }

  /** Forgets everything for good: a verdict that fails later must not keep the process alive. */
  close(): void {
    this.#closed = true;
    this.forget();
  }

  /** What was delivered here, by its number in the stream. */
  bySequence(): ReadonlyMap<number, Leased> {
    return new Map(this.#held.values().map((delivery) => [delivery.seq, delivery]));
  }

  async #keep(what: string, deliveries: readonly Leased[], until: number): Promise<void> {
    const now = this.#clock.monotonic();
    const untils = new Map(deliveries.map((it) => [it, Math.max(it.wantedUntil, until)]));
    await this.#verdicts.confirm(
      what,
      deliveries,
      (it) => backIn(untils.get(it)! - now + MARGIN_MS),
    );
    for (const [delivery, end] of untils) {
      if (delivery.place < 0) continue; // settled meanwhile
      delivery.wantedUntil = Math.max(delivery.wantedUntil, end);
      delivery.heldUntil = delivery.attendAt = delivery.wantedUntil;
      this.#held.moved(delivery);
    }
    this.#setTimer();
  }

  #setTimer(): void {
    const at = this.#held.peek()?.attendAt ?? Infinity;
    if (this.#closed || at >= this.#timerAt) return;
    this.#cancel?.();
    this.#timerAt = at;
    const ms = Math.max(0, at - this.#clock.monotonic());
    this.#cancel = this.#clock.schedule(ms, () => {
      this.#timerAt = Infinity;
      this.#attend();
    });
  }

  /** Does what is due: gives back what has ended, and has the server keep what goes on. */
  #attend(): void {
    const now = this.#clock.monotonic() + EARLY_MS;
    const ended: Leased[] = [];
    const young: Leased[] = [];
    for (let top = this.#held.peek(); top && top.attendAt <= now; top = this.#held.peek()) {
      this.#held.remove(top);
      if (top.heldUntil > now) young.push(top);
      // Later it has come back by itself, and may be somebody else's.
      else if (now < top.heldUntil + top.marginMs / 2) ended.push(top);
    }
    for (const delivery of young) {
      delivery.attendAt = now + SETTLE_IN_MS; // should the server not confirm it
      this.#held.push(delivery);
    }
    if (ended.length > 0) this.#return(ended);
    if (young.length > 0) {
      this.#calls.background(this.#keep("extend", young, 0)).catch((error) => {
        this.#log.debug("could not make leases last; it is tried again", { error });
      });
    }
    this.#setTimer();
  }

  #return(ended: readonly Leased[]): void {
    const returned = this.#verdicts.confirm("give back", ended, () => BACK).catch((error) => {
      this.#log.debug("could not give messages back at the end of their leases", { error });
    });
    const returning = Promise.all([this.#returning, returned]).then(() => {
      if (this.#returning === returning) this.#returning = undefined;
    });
    this.#returning = this.#calls.background(returning);
  }
}

function returnIn(delayMs: number): { readonly delayMs: number; readonly verdict: Uint8Array } {
  if (delayMs <= 0) return { delayMs, verdict: BACK };
  const marginMs = delayMs <= LONGEST_RETURN_MS ? RETURN_MARGIN_MS : 0;
  return { delayMs, verdict: backIn(delayMs + marginMs) };
}
