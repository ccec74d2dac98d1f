import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Calls } from "./_calls.ts";
import { noResponders } from "./_calls.ts";
import { NatsDelivery } from "./_delivery.ts";
import { CONSUMER_NOT_FOUND, isMissing, JetStreamError, NO_RESPONDERS } from "./_errors.ts";
import type { Inbox, Inboxes } from "./_inboxes.ts";
import type { Leases } from "./_leases.ts";
import type { Notes } from "./_notes.ts";
import type { NatsConnection, NatsMessage } from "./nats_connection.ts";
import type { BufferedMessage } from "./_long_poll.ts";
import { type Acks, NAK } from "./_acks.ts";

/** The private status code of a request that the server has lost. */
const LOST_REQUEST = 408.5;
const LOST_RESPONSE: NatsMessage = {
  subject: "",
  data: new Uint8Array(),
  headers: { code: LOST_REQUEST, description: "" },
};

/** Status codes for "no messages" and "no more messages". */
const EMPTY_CODES: readonly number[] = [404, 408, LOST_REQUEST];

/** After this time without an answer the receiver checks whether the server has lost the request. */
const PROBE_AFTER_MS = 150;

/**
 * When a receive request expires. `no_wait` alone is not enough: when another receiver takes the last
 * message, the server would keep the request forever. The server also confirms a sent message shortly
 * before it delivers it. Requests are never canceled, because a canceled request could lose a message
 * until its redelivery, or the server could confuse it with its next delivery.
 */
const REQUEST_EXPIRES_MS = 50;

/**
 * After a longer time the server may have redelivered the message, so a release could affect another
 * receiver.
 */
const REDELIVERY_SAFE_MS = 8_000;

/** The limit of remembered deferred messages. Other processes take some of them. */
const MAX_DEFERRED = 10_000;

/** A delayed message that is due within this time is delivered now. */
const NEARLY_DUE_MS = 20;

/** How long a measured clock offset is used. */
const CLOCK_OFFSET_TTL_MS = 600_000;

export interface ReceiverOptions {
  readonly mailbox: string;
  readonly connection: NatsConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly calls: Calls;
  readonly inboxes: Inboxes;
  readonly acks: Acks;
  readonly notes: Notes;
  readonly leases: Leases;
  /** Returns the subject of receive requests. */
  readonly subject: () => string;
  /** Makes the server check its open requests. Rejects when the consumer is missing. */
  readonly probe: () => Promise<unknown>;
}

/** Deliveries and the earliest time at which the server sent them. */
export interface Received {
  readonly deliveries: readonly NatsDelivery[];
  readonly deliveredAt: number;
}

/** Receives messages and turns them into deliveries. */
export class Receiver {
  readonly #options: ReceiverOptions;
  /** The server's clock minus the monotonic clock, and when it was measured. */
  #clockOffset: { readonly ms: number; readonly at: number } | undefined;

  /** When each deferred message was stored, by sequence number. */
  readonly #deferred = new Map<NatsDelivery["seq"], NatsDelivery["storedAt"]>();

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  /**
   * Returns up to `max` messages: those that the long poll has buffered, or else those that are visible.
   */
  async receive(max: number, take: (max: number) => readonly BufferedMessage[]): Promise<Received> {
    for (;;) {
      let deliveredAt = this.#options.clock.monotonic();
      const messages: NatsMessage[] = [];
      const takeBuffered = () => {
        for (const buffered of take(max - messages.length)) {
          deliveredAt = Math.min(deliveredAt, buffered.deliveredAt);
          messages.push(buffered.message);
        }
      };
      takeBuffered();
      if (messages.length === 0) await this.#fetch(max, messages);
      if (messages.length === 0) takeBuffered(); // the long poll may have received one in the meantime
      const deliveries = messages.map((message) => new NatsDelivery(message));
      const ready = await this.#filterDue(deliveries);
      if (ready.length > 0 || deliveries.length === 0) return { deliveries: ready, deliveredAt };
    }
  }

  /** Releases messages that no receiver gets, without spending an attempt. Logs errors. */
  async release(messages: readonly NatsMessage[]): Promise<void> {
    const deliveries = messages.map((message) => new NatsDelivery(message));
    await this.#release(deliveries.map((delivery) => ({ delivery, known: false })));
  }

  async #release(
    items: readonly { readonly delivery: NatsDelivery; readonly known: boolean }[],
  ): Promise<void> {
    const { calls, log, acks, mailbox } = this.#options;
    const what = `release ("${mailbox}")`;
    const release = async () => {
      const deliveries = items.map(({ delivery }) => delivery);
      await this.#readNotes(what, items.filter(({ known }) => !known).map((it) => it.delivery));
      // The first delivery of a delayed message does not count in any case.
      const counts = (it: NatsDelivery) =>
        it.delayMs === 0 || it.serverDeliveryCount > 1 || this.#wasDeferred(it);
      await this.#noteUncounted(what, deliveries.filter(counts));
      await acks.publishConfirmed(what, deliveries, () => NAK);
    };
    try {
      await calls.background(release());
    } catch (error) {
      log.debug(`could not release to "${mailbox}"; the server delivers the messages again later`, {
        error,
      });
    }
  }

  /** Requests up to `max` visible messages. */
  async #fetch(max: number, messages: NatsMessage[]): Promise<void> {
    const { mailbox, connection, clock, calls, inboxes, subject } = this.#options;
    const what = `receive ("${mailbox}")`;
    const request = JSON.stringify({
      batch: max,
      no_wait: true,
      expires: REQUEST_EXPIRES_MS * 1_000_000,
    });
    const askedAt = clock.monotonic();
    const inbox = inboxes.acquire();
    let end: NatsMessage["headers"];
    let over = false;
    let cancel: Cancel | undefined;
    try {
      await calls.run(what, (_, onMessage) => {
        inbox.onMessage = onMessage;
        connection.publish(subject(), request, { reply: inbox.subject });
        cancel = this.#watchForLoss(inbox, () => messages.length);
      }, {
        onAnswer(message) {
          if (codeOf(message) > 0) end = message.headers;
          else messages.push(message);
          return over = end !== undefined || messages.length === max;
        },
        onLate: (message) => {
          if (codeOf(message) > 0) return;
          if (clock.monotonic() - askedAt < REDELIVERY_SAFE_MS) this.release([message]);
        },
        acceptsPartial: () => messages.length > 0,
      });
    } catch (error) {
      if (messages.length === 0) throw error;
    } finally {
      cancel?.();
      if (over && end?.code !== LOST_REQUEST) inboxes.release(inbox);
      else inboxes.retire(inbox);
    }
    if (end === undefined || messages.length > 0 || EMPTY_CODES.includes(end.code)) return;
    if (end.code === NO_RESPONDERS) throw noResponders(what);
    if (/consumer deleted/i.test(end.description)) {
      throw new JetStreamError(what, CONSUMER_NOT_FOUND, "consumer not found");
    }
    throw new JetStreamError(what, end.code, end.description);
  }

  /**
   * Ends a request that the server has lost or that went to a missing consumer. The server answers in
   * order, so an answered probe proves that the request is lost.
   */
  #watchForLoss(inbox: Inbox, count: () => number): Cancel {
    const { clock, log, calls, probe } = this.#options;
    let canceled = false;
    let cancel: Cancel;
    const wait = () => {
      const before = count();
      cancel = clock.schedule(PROBE_AFTER_MS, () => {
        calls.background(probe()).then(() => {
          if (canceled) return;
          if (count() > before) return wait();
          inbox.onMessage(LOST_RESPONSE);
          inbox.onMessage = (message) => codeOf(message) > 0 || void this.release([message]);
        }).catch((error) => {
          log.debug("could not check for a lost receive request", { error });
          if (canceled || !isMissing(error)) return;
          inbox.onMessage({
            ...LOST_RESPONSE,
            headers: { code: error.code, description: error.text },
          });
        });
      });
    };
    wait();
    return () => {
      canceled = true;
      cancel();
    };
  }

  /** Returns the deliveries that are due and defers the others. */
  async #filterDue(deliveries: readonly NatsDelivery[]): Promise<readonly NatsDelivery[]> {
    const repeated = deliveries.filter(({ serverDeliveryCount }) => serverDeliveryCount > 1);
    const delayed = deliveries.filter(({ delayMs }) => delayMs > 0);
    if (repeated.length === 0 && delayed.length === 0) return deliveries;
    const what = `receive ("${this.#options.mailbox}")`;
    let known = false;
    try {
      await this.#readNotes(what, repeated);
      known = true;
      const early = delayed.length === 0 ? new Set() : await this.#deferEarly(what, delayed);
      return deliveries.filter((delivery) => !early.has(delivery));
    } catch (error) {
      this.#release(deliveries.map((delivery) => ({ delivery, known })));
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
    this.#recordDeferred(delayed, early);
    await this.#noteUncounted(what, again);
    await this.#options.leases.nackAfter(what, early, leftMs);
    return new Set(early);
  }

  /** Remembers which messages this process has deferred. */
  #recordDeferred(delayed: readonly NatsDelivery[], early: readonly NatsDelivery[]): void {
    for (const { seq } of delayed) this.#deferred.delete(seq);
    if (this.#deferred.size > MAX_DEFERRED) this.#deferred.clear();
    for (const { seq, storedAt } of early) this.#deferred.set(seq, storedAt);
  }

  #wasDeferred({ seq, storedAt }: NatsDelivery): boolean {
    return this.#deferred.get(seq) === storedAt;
  }

  async #readNotes(what: string, deliveries: readonly NatsDelivery[]): Promise<void> {
    await Promise.all(deliveries.map(async (delivery) => {
      if (delivery.serverDeliveryCount > 1) {
        delivery.note = await this.#options.notes.read(what, delivery);
      }
    }));
  }

  async #noteUncounted(what: string, deliveries: readonly NatsDelivery[]): Promise<void> {
    for (const delivery of deliveries) {
      delivery.note = { ...delivery.note, uncounted: delivery.note.uncounted + 1 };
    }
    await this.#options.notes.write(what, deliveries);
  }

  async #serverTime(what: string): Promise<number> {
    const { clock, notes } = this.#options;
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

/** Returns the status code. Only messages of the server itself have one. */
function codeOf({ headers }: NatsMessage): number {
  return headers?.code ?? 0;
}
