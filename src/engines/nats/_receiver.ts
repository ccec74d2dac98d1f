import type { Cancel } from "../../clock.ts";
import { NAK } from "./_calls.ts";
import { NatsDelivery } from "./_delivery.ts";
import { isMissing, statusError } from "./_errors.ts";
import type { Leases } from "./_leases.ts";
import type { LongPoll } from "./_long_poll.ts";
import type { Notes } from "./_notes.ts";
import type { Queue } from "./_queue.ts";
import type { Streams } from "./_streams.ts";
import { type Inbox, Inboxes, type NatsMessage } from "./nats_connection.ts";

/** The limit of remembered deferred messages. Other processes take some of them. */
const MAX_DEFERRED = 10_000;

/** How long a receive asks for messages that the server has, and does not deliver. */
const LATE_MS = 1_000;

/** A delayed message that is due within this time is delivered now. */
const NEARLY_DUE_MS = 20;

/** Deliveries and the earliest time at which the server sent them. */
export interface ReceivedMessages {
  readonly deliveries: readonly NatsDelivery[];
  readonly deliveredAt: number;
}

/** Receives messages and turns them into deliveries. Defers delayed messages until they are due. */
export class Receiver {
  readonly #queue: Queue;
  readonly #notes: Notes;
  readonly #leases: Leases;
  readonly #requests: ReceiveRequests;
  /** When each deferred message was stored, by sequence number. */
  readonly #deferred = new Map<NatsDelivery["seq"], NatsDelivery["storedAt"]>();
  /** How many releases of messages that no receiver gets have no answer. */
  #releasing = 0;

  constructor(queue: Queue, streams: Streams, notes: Notes, leases: Leases) {
    this.#queue = queue;
    this.#notes = notes;
    this.#leases = leases;
    this.#requests = new ReceiveRequests(queue, streams, this);
  }

  /**
   * Returns up to `max` messages: those that the long poll has buffered, or else those that are visible.
   */
  async receive(max: number, longPoll: Pick<LongPoll, "take">): Promise<ReceivedMessages> {
    const { clock } = this.#queue;
    const endsAt = clock.monotonic() + LATE_MS;
    for (;;) {
      const askedAt = clock.monotonic();
      let buffered = longPoll.take(max);
      let messages = buffered.map(({ message }) => message);
      if (messages.length === 0) messages = await this.#requests.fetch(max);
      if (messages.length === 0) {
        buffered = longPoll.take(max); // it may have received one in the meantime
        messages = buffered.map(({ message }) => message);
      }
      const deliveredAt = Math.min(askedAt, ...buffered.map((it) => it.deliveredAt));
      const deliveries = messages.map((message) => new NatsDelivery(message));
      const due = await this.#filterDue(deliveries);
      if (due.length > 0) return { deliveries: due, deliveredAt };
      if (deliveries.length > 0) continue;
      const isLate = this.#releasing > 0 || await this.#requests.isLate();
      if (!isLate || clock.monotonic() >= endsAt) return { deliveries, deliveredAt };
    }
  }

  /** Releases messages that no receiver gets, without counting an attempt. Logs errors. */
  async release(messages: readonly NatsMessage[]): Promise<void> {
    const deliveries = messages.map((message) => new NatsDelivery(message));
    await this.#release(deliveries, deliveries);
  }

  close(): void {
    this.#requests.close();
  }

  /** Releases deliveries. The notes of those in `unread` are not known yet. */
  async #release(
    deliveries: readonly NatsDelivery[],
    unread: readonly NatsDelivery[],
  ): Promise<void> {
    const { mailbox, calls, log } = this.#queue;
    const what = this.#queue.what("release");
    const release = async () => {
      await this.#notes.read(what, unread);
      // The first delivery of a delayed message does not count in any case.
      const counted = deliveries.filter((it) =>
        it.delayMs === 0 || it.serverDeliveryCount > 1 || this.#wasDeferred(it)
      );
      await this.#notes.uncount(what, counted);
      await calls.settle(what, deliveries, () => NAK);
    };
    this.#releasing++;
    try {
      await calls.track(release());
    } catch (error) {
      log.debug("cannot release messages on NATS; the server does it later", { mailbox, error });
    } finally {
      this.#releasing--;
    }
  }

  /** Returns the deliveries that are due and defers the others. */
  async #filterDue(deliveries: readonly NatsDelivery[]): Promise<readonly NatsDelivery[]> {
    const isPlain = (it: NatsDelivery) => it.serverDeliveryCount === 1 && it.delayMs === 0;
    if (deliveries.every(isPlain)) return deliveries;
    const what = this.#queue.what("receive");
    let unread = deliveries;
    try {
      await this.#notes.read(what, deliveries);
      unread = [];
      const early = await this.#deferEarly(what, deliveries.filter(({ delayMs }) => delayMs > 0));
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
    if (delayed.length === 0) return new Set();
    const now = await this.#notes.serverTime(what);
    const leftMs = ({ enqueuedAt, delayMs }: NatsDelivery) => enqueuedAt + 1 + delayMs - now;
    const early = delayed.filter((it) =>
      it.serverDeliveryCount === 1 || leftMs(it) > NEARLY_DUE_MS
    );
    // The server sometimes reports a second delivery as the first one; that one needs a note.
    const again = early.filter((it) => it.serverDeliveryCount > 1 || this.#wasDeferred(it));
    for (const { seq } of delayed) this.#deferred.delete(seq);
    if (this.#deferred.size > MAX_DEFERRED) this.#deferred.clear();
    for (const { seq, storedAt } of early) this.#deferred.set(seq, storedAt);
    await this.#notes.uncount(what, again);
    await this.#leases.nackAfter(what, early, leftMs);
    return new Set(early);
  }

  /** Returns true for a message that this process has deferred. */
  #wasDeferred({ seq, storedAt }: NatsDelivery): boolean {
    return this.#deferred.get(seq) === storedAt;
  }
}

/**
 * When a receive request expires. `no_wait` alone is not enough: when another receiver takes the last
 * message, the server would keep the request forever. The server also confirms a sent message shortly
 * before it delivers it. Requests are never canceled, because a canceled request could lose a message
 * until its redelivery, or the server could confuse it with its next delivery.
 */
const EXPIRES_MS = 50;

/** After this time without an answer, a request may be lost. */
const PROBE_AFTER_MS = 150;

/** The private status code of a request that the server has lost. */
const LOST = 408.5;

/** Status codes for "no messages" and "no more messages". */
const EMPTY_CODES: readonly number[] = [404, 408, LOST];

/**
 * After a longer time the server may have redelivered the message, so a release could affect another
 * receiver.
 */
const REDELIVERY_SAFE_MS = 8_000;

/** Requests the messages that are visible now. */
class ReceiveRequests {
  readonly #queue: Queue;
  readonly #streams: Streams;
  readonly #receiver: Receiver;
  readonly #inboxes: Inboxes;

  constructor(queue: Queue, streams: Streams, receiver: Receiver) {
    this.#queue = queue;
    this.#streams = streams;
    this.#receiver = receiver;
    this.#inboxes = new Inboxes(queue.connection);
  }

  /** Receives up to `max` visible messages. */
  async fetch(max: number): Promise<NatsMessage[]> {
    const { client, clock, calls } = this.#queue;
    const what = this.#queue.what("receive");
    const request = JSON.stringify({ batch: max, no_wait: true, expires: EXPIRES_MS * 1_000_000 });
    const askedAt = clock.monotonic();
    const inbox = this.#inboxes.acquire();
    const messages: NatsMessage[] = [];
    let end: NatsMessage | undefined;
    let cancel: Cancel | undefined;
    try {
      await calls.run(what, (_, onMessage) => {
        inbox.onMessage = onMessage;
        client.publish(this.#streams.requestSubject, request, { reply: inbox.subject });
        cancel = this.#watchForLoss(inbox, () => messages.length);
      }, {
        onAnswer(message) {
          if (codeOf(message) > 0) end = message;
          else messages.push(message);
          return end !== undefined || messages.length === max;
        },
        onLate: (message) => {
          if (codeOf(message) > 0) return;
          if (clock.monotonic() - askedAt < REDELIVERY_SAFE_MS) this.#receiver.release([message]);
        },
        acceptsPartial: () => messages.length > 0,
      });
    } catch (error) {
      if (messages.length === 0) throw error;
    } finally {
      cancel?.();
      const isOver = messages.length === max || (end !== undefined && codeOf(end) !== LOST);
      if (isOver) this.#inboxes.release(inbox);
      else this.#inboxes.retire(inbox);
    }
    if (end === undefined || messages.length > 0 || EMPTY_CODES.includes(codeOf(end))) {
      return messages;
    }
    throw statusError(what, end.headers!);
  }

  /** Returns true if the server has messages that no request has received: a busy server delivers late. */
  async isLate(): Promise<boolean> {
    const { jetStream, names } = this.#queue;
    const what = this.#queue.what("receive");
    const { num_pending } = await jetStream.consumer(what, names.stream, this.#streams.consumer);
    return num_pending > 0;
  }

  close(): void {
    this.#inboxes.close();
  }

  /**
   * Ends a request that the server has lost or that went to a missing consumer. The server answers in
   * order, so an answered probe proves that the request is lost.
   */
  #watchForLoss(inbox: Inbox, count: () => number): Cancel {
    const { mailbox, clock, log, calls, jetStream, names } = this.#queue;
    let canceled = false;
    let cancel: Cancel;
    const probe = async (before: number) => {
      try {
        const what = "check for lost requests";
        await calls.track(jetStream.consumer(what, names.stream, this.#streams.consumer));
        if (canceled) return;
        if (count() > before) return wait();
        inbox.onMessage(statusMessage(LOST, ""));
        inbox.onMessage = (message) => codeOf(message) > 0 || this.#receiver.release([message]);
      } catch (error) {
        log.debug("cannot check for a lost receive request on NATS", { mailbox, error });
        if (!canceled && isMissing(error)) inbox.onMessage(statusMessage(error.code, error.text));
      }
    };
    const wait = () => {
      const before = count();
      cancel = clock.schedule(PROBE_AFTER_MS, () => void probe(before));
    };
    wait();
    return () => {
      canceled = true;
      cancel();
    };
  }
}

function statusMessage(code: number, description: string): NatsMessage {
  return { subject: "", data: new Uint8Array(), headers: { code, description } };
}

/** Returns the status code. Only messages of the server itself have one. */
function codeOf({ headers }: NatsMessage): number {
  return headers?.code ?? 0;
}
