import type { Cancel } from "../../clock.ts";
import { isMissing, statusError } from "./_jetstream.ts";
import type { Queue } from "./_queue.ts";
import type { NatsMessage, NatsSubscription } from "./nats_connection.ts";

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

/** How many inboxes of failed requests stay subscribed for late messages. */
const MAX_RETIRED = 8;

/** A subscription that serves one request at a time. */
interface Inbox {
  readonly subject: string;
  readonly subscription: NatsSubscription;
  onMessage: (message: NatsMessage) => void;
}

/**
 * Requests the messages that are visible now. Messages arrive with the subject they were stored under,
 * which does not name the request, so concurrent requests need separate subscriptions: a pool of inboxes.
 */
export class ReceiveRequests {
  readonly #queue: Queue;
  readonly #free: Inbox[] = [];
  readonly #retired: Inbox[] = [];
  readonly #all = new Set<Inbox>();

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  /** Receives up to `max` visible messages. */
  async fetch(max: number): Promise<NatsMessage[]> {
    const { client, clock, calls, receiver, requestSubject } = this.#queue;
    const what = this.#queue.what("receive");
    const request = JSON.stringify({ batch: max, no_wait: true, expires: EXPIRES_MS * 1_000_000 });
    const askedAt = clock.monotonic();
    const inbox = this.#free.pop() ?? this.#createInbox();
    const messages: NatsMessage[] = [];
    let end: NatsMessage | undefined;
    let cancel: Cancel | undefined;
    try {
      await calls.run(what, (_, onMessage) => {
        inbox.onMessage = onMessage;
        client.publish(requestSubject, request, { reply: inbox.subject });
        cancel = this.#watchForLoss(inbox, () => messages.length);
      }, {
        onAnswer(message) {
          if (codeOf(message) > 0) end = message;
          else messages.push(message);
          return end !== undefined || messages.length === max;
        },
        onLate(message) {
          if (codeOf(message) > 0) return;
          if (clock.monotonic() - askedAt < REDELIVERY_SAFE_MS) receiver.release([message]);
        },
        acceptsPartial: () => messages.length > 0,
      });
    } catch (error) {
      if (messages.length === 0) throw error;
    } finally {
      cancel?.();
      const over = messages.length === max || (end !== undefined && codeOf(end) !== LOST);
      if (over) this.#release(inbox);
      else this.#retire(inbox);
    }
    if (end === undefined || messages.length > 0 || EMPTY_CODES.includes(codeOf(end))) {
      return messages;
    }
    throw statusError(what, end.headers!);
  }

  close(): void {
    for (const inbox of this.#all) this.#unsubscribe(inbox);
  }

  /**
   * Ends a request that the server has lost or that went to a missing consumer. The server answers in
   * order, so an answered probe proves that the request is lost.
   */
  #watchForLoss(inbox: Inbox, count: () => number): Cancel {
    const { mailbox, clock, log, calls, jetStream, receiver, names, streams } = this.#queue;
    let canceled = false;
    let cancel: Cancel;
    const probe = async (before: number) => {
      try {
        const what = "check for lost requests";
        await calls.track(jetStream.consumer(what, names.stream, streams.consumer));
        if (canceled) return;
        if (count() > before) return wait();
        inbox.onMessage(statusMessage(LOST, ""));
        inbox.onMessage = (message) => codeOf(message) > 0 || void receiver.release([message]);
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

  #createInbox(): Inbox {
    const { connection, client } = this.#queue;
    const subject = connection.newInbox();
    const subscription = client.subscribe(subject, {
      callback: (error, message) => error ?? inbox.onMessage(message),
    });
    const inbox: Inbox = { subject, subscription, onMessage: () => {} };
    this.#all.add(inbox);
    return inbox;
  }

  /** Returns an inbox to the pool. No more messages can arrive for its request. */
  #release(inbox: Inbox): void {
    if (this.#all.has(inbox)) this.#free.push(inbox);
  }

  /** Takes an inbox out of use that may still get messages. */
  #retire(inbox: Inbox): void {
    this.#retired.push(inbox);
    if (this.#retired.length > MAX_RETIRED) this.#unsubscribe(this.#retired.shift()!);
  }

  #unsubscribe(inbox: Inbox): void {
    this.#all.delete(inbox);
    if (!this.#queue.client.isClosed()) inbox.subscription.unsubscribe();
  }
}

function statusMessage(code: number, description: string): NatsMessage {
  return { subject: "", data: new Uint8Array(), headers: { code, description } };
}

/** Returns the status code. Only messages of the server itself have one. */
function codeOf({ headers }: NatsMessage): number {
  return headers?.code ?? 0;
}
