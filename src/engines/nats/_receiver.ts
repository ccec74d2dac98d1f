import type { NatsMessage } from "./nats_connection.ts";
import { NAK } from "./_calls.ts";
import type { Queue } from "./_queue.ts";
import { NatsDelivery } from "./_storage_format.ts";

/** The limit of remembered deferred messages. Other processes take some of them. */
const MAX_DEFERRED = 10_000;

/** A delayed message that is due within this time is delivered now. */
const NEARLY_DUE_MS = 20;

/** How long a measured clock offset is used. */
const CLOCK_OFFSET_TTL_MS = 600_000;

/** Deliveries and the earliest time at which the server sent them. */
export interface ReceivedMessages {
  readonly deliveries: readonly NatsDelivery[];
  readonly deliveredAt: number;
}

/** Receives messages and turns them into deliveries. Defers delayed messages until they are due. */
export class Receiver {
  readonly #queue: Queue;
  /** The server's clock minus the monotonic clock, and when it was measured. */
  #clockOffset: { readonly ms: number; readonly at: number } | undefined;
  /** When each deferred message was stored, by sequence number. */
  readonly #deferred = new Map<NatsDelivery["seq"], NatsDelivery["storedAt"]>();

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /**
   * Returns up to `max` messages: those that the long poll has buffered, or else those that are visible.
   */
  async receive(max: number): Promise<ReceivedMessages> {
    const { clock, longPoll, requests } = this.#queue;
    for (;;) {
      const askedAt = clock.monotonic();
      let buffered = longPoll.take(max);
      let messages = buffered.map(({ message }) => message);
      if (messages.length === 0) messages = await requests.fetch(max);
      if (messages.length === 0) {
        buffered = longPoll.take(max); // it may have received one in the meantime
        messages = buffered.map(({ message }) => message);
      }
      const deliveredAt = Math.min(askedAt, ...buffered.map((it) => it.deliveredAt));
      const deliveries = messages.map((message) => new NatsDelivery(message));
      const due = await this.#filterDue(deliveries);
      if (due.length > 0 || deliveries.length === 0) return { deliveries: due, deliveredAt };
    }
  }

  /** Releases messages that no receiver gets, without spending an attempt. Logs errors. */
  async release(messages: readonly NatsMessage[]): Promise<void> {
    const deliveries = messages.map((message) => new NatsDelivery(message));
    await this.#release(deliveries, deliveries);
  }

  /** Releases deliveries. The notes of those in `unread` are not known yet. */
  async #release(
    deliveries: readonly NatsDelivery[],
    unread: readonly NatsDelivery[],
  ): Promise<void> {
    const { mailbox, calls, log } = this.#queue;
    const what = this.#queue.what("release");
    const release = async () => {
      await this.#readNotes(what, unread);
      // The first delivery of a delayed message does not count in any case.
      const counted = deliveries.filter((it) =>
        it.delayMs === 0 || it.serverDeliveryCount > 1 || this.#wasDeferred(it)
      );
      await this.#uncount(what, counted);
      await calls.settle(what, deliveries, () => NAK);
    };
    try {
      await calls.track(release());
    } catch (error) {
      log.debug("cannot release messages on NATS; the server does it later", { mailbox, error });
    }
  }

  /** Returns the deliveries that are due and defers the others. */
  async #filterDue(deliveries: readonly NatsDelivery[]): Promise<readonly NatsDelivery[]> {
    const repeated = deliveries.filter(({ serverDeliveryCount }) => serverDeliveryCount > 1);
    const delayed = deliveries.filter(({ delayMs }) => delayMs > 0);
    if (repeated.length === 0 && delayed.length === 0) return deliveries;
    const what = this.#queue.what("receive");
    let unread = deliveries;
    try {
      await this.#readNotes(what, repeated);
      unread = [];
      const early = delayed.length === 0 ? new Set() : await this.#deferEarly(what, delayed);
      return deliveries.filter((delivery) => !early.has(delivery));
    } catch (error) {
      this.#release(deliveries, unread);
      throw error;
    }
  }

  /**
   * Defers delayed messages until they are due. The first delivery is always deferred, so it needs no
   * note to be uncounted.
   */
  async #deferEarly(
    what: string,
    delayed: readonly NatsDelivery[],
  ): Promise<ReadonlySet<NatsDelivery>> {
    const now = await this.#serverTime(what);
    const leftMs = ({ enqueuedAt, delayMs }: NatsDelivery) => enqueuedAt + 1 + delayMs - now;
    const early = delayed.filter((it) =>
      it.serverDeliveryCount === 1 || leftMs(it) > NEARLY_DUE_MS
    );
    // The server sometimes reports a second delivery as the first one; that one needs a note.
    const again = early.filter((it) => it.serverDeliveryCount > 1 || this.#wasDeferred(it));
    for (const { seq } of delayed) this.#deferred.delete(seq);
    if (this.#deferred.size > MAX_DEFERRED) this.#deferred.clear();
    for (const { seq, storedAt } of early) this.#deferred.set(seq, storedAt);
    await this.#uncount(what, again);
    await this.#queue.leases.nackAfter(what, early, leftMs);
    return new Set(early);
  }

  /** Returns true for a message that this process has deferred. */
  #wasDeferred({ seq, storedAt }: NatsDelivery): boolean {
    return this.#deferred.get(seq) === storedAt;
  }

  async #readNotes(what: string, deliveries: readonly NatsDelivery[]): Promise<void> {
    const repeated = deliveries.filter(({ serverDeliveryCount }) => serverDeliveryCount > 1);
    await Promise.all(repeated.map((delivery) => this.#queue.notes.read(what, delivery)));
  }

  /** Notes that a delivery does not count as an attempt. */
  #uncount(what: string, deliveries: readonly NatsDelivery[]): Promise<void> {
    return this.#queue.notes.change(what, deliveries, ({ uncounted }) => ({
      uncounted: uncounted + 1,
    }));
  }

  async #serverTime(what: string): Promise<number> {
    const { clock, notes } = this.#queue;
    if (
      this.#clockOffset === undefined ||
      clock.monotonic() - this.#clockOffset.at > CLOCK_OFFSET_TTL_MS
    ) {
      const time = await notes.serverTime(what);
      this.#clockOffset = { ms: time - clock.monotonic(), at: clock.monotonic() };
    }
    return this.#clockOffset.ms + clock.monotonic();
  }
}
