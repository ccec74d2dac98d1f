import type { Clock } from "../../clock.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import { PendingCalls } from "../_kit/calls.ts";
import {
  connectionError,
  connectionLost,
  NO_RESPONDERS,
  NoAnswerError,
  statusError,
} from "./_errors.ts";
import type {
  NatsConnection,
  NatsMessage,
  NatsSubscription,
  SharedConnection,
} from "./nats_connection.ts";

/**
 * A close waits only for calls that started within this time, so that a frozen server does not delay a
 * stop.
 */
const CLOSE_WAIT_MS = 1_000;

/** How many timed-out calls still accept a late answer. */
const MAX_TIMED_OUT = 1_000;

/** How a call handles its answers. */
export interface CallOptions {
  /** Handles one answer. Returns true when it was the last one. */
  readonly onAnswer: (message: NatsMessage, part: string) => boolean;
  /** Handles answers that arrive after the call has timed out. */
  readonly onLate?: (message: NatsMessage, part: string) => void;
  /** Returns true to resolve a call that times out with the answers received so far. */
  readonly acceptsPartial?: () => boolean;
}

interface Call extends CallOptions {
  readonly what: string;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** A message to store. */
export interface OutgoingMessage {
  readonly subject: string;
  readonly payload: Uint8Array | string;
}

const encoder = new TextEncoder();

/** Acknowledges: the server removes the message. */
export const ACK: Uint8Array = encoder.encode("+ACK");

/** Makes the message visible immediately. */
export const NAK: Uint8Array = encoder.encode("-NAK");

/**
 * Makes the message visible after `ms`. Until then the same receiver can still acknowledge it, so a
 * delayed NAK works as a lease of any length.
 */
export function nakAfter(ms: number): Uint8Array {
  return encoder.encode(`-NAK {"delay": ${Math.ceil(ms * 1_000)}000}`);
}

/**
 * Requests to the server, each with a timeout. All answers arrive at one subscription. The last parts of
 * the subject name the call and the part of the call that they answer.
 */
export class Calls {
  readonly #client: NatsConnection;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #inbox: string;
  readonly #subscription: NatsSubscription;
  readonly #open = new Map<string, Call>();
  readonly #timedOut = new Map<string, NonNullable<CallOptions["onLate"]>>();
  readonly #pending = new PendingCalls();
  #last = 0;
  #lastCallAt = 0;
  #connected = true;
  #closed = false;

  constructor(connection: SharedConnection) {
    this.#client = connection.client;
    this.#clock = connection.options.clock;
    this.#timeoutMs = connection.options.callTimeoutMs;
    this.#inbox = connection.newInbox();
    this.#subscription = this.#client.subscribe(`${this.#inbox}.>`, {
      callback: (error, message) => error ?? this.#onMessage(message),
    });
  }

  /** Sends a request and returns its single answer. */
  async request(what: string, subject: string, payload = ""): Promise<NatsMessage> {
    let answer: NatsMessage | undefined;
    await this.run(what, (reply) => this.#client.publish(subject, payload, { reply }), {
      onAnswer: (message) => (answer = message, true),
    });
    return answer!;
  }

  /** Stores messages and resolves when the server has answered each. `read` gets the answers. */
  async store(
    what: string,
    messages: readonly OutgoingMessage[],
    read: (answer: NatsMessage, index: number) => void,
    onLate: (answer: NatsMessage, index: number) => void = () => {},
  ): Promise<void> {
    let missing = messages.length;
    await this.run(what, (reply) => {
      for (const [i, { subject, payload }] of messages.entries()) {
        this.#client.publish(subject, payload, { reply: `${reply}.${i}` });
      }
    }, {
      onAnswer: (answer, part) => {
        read(answer, Number(part));
        return --missing === 0;
      },
      onLate: (answer, part) => onLate(answer, Number(part)),
    });
  }

  /**
   * Publishes one ack per delivery and resolves when the server has processed all of them. A consumer
   * processes the acks of one connection in order, so only the last one asks for an answer.
   */
  async settle<D extends { readonly ackSubject: string }>(
    what: string,
    deliveries: readonly D[],
    ack: (delivery: D) => Uint8Array,
  ): Promise<void> {
    if (deliveries.length === 0) return;
    let status: NatsMessage["headers"];
    await this.run(what, (reply) => this.publishAcks(deliveries, ack, reply), {
      onAnswer: ({ headers }) => (status = headers, true),
    });
    if (status?.code === NO_RESPONDERS) throw statusError(what, status);
  }

  /** Publishes one ack per delivery. The last one asks for an answer at `reply`. */
  publishAcks<D extends { readonly ackSubject: string }>(
    deliveries: readonly D[],
    ack: (delivery: D) => Uint8Array,
    reply?: string,
  ): void {
    const last = deliveries.at(-1);
    for (const delivery of deliveries) {
      const options = reply !== undefined && delivery === last ? { reply } : undefined;
      this.#client.publish(delivery.ackSubject, ack(delivery), options);
    }
  }

  /**
   * Calls `send` and resolves when `onAnswer` has returned true. Answers arrive at `reply`; `onMessage`
   * takes those that arrive on another subject.
   */
  async run(
    what: string,
    send: (reply: string, onMessage: (message: NatsMessage) => void) => void,
    options: CallOptions,
  ): Promise<void> {
    this.check(what);
    const token = `${++this.#last}`;
    this.#lastCallAt = this.#clock.monotonic();
    const answered = new Promise<void>((resolve, reject) => {
      this.#open.set(token, { ...options, what, resolve, reject });
    });
    const cancel = this.#clock.schedule(this.#timeoutMs, () => this.#timeOut(token));
    try {
      send(`${this.#inbox}.${token}`, (message) => this.#answer(token, message, ""));
      await this.track(answered);
    } catch (error) {
      throw connectionError(what, error);
    } finally {
      cancel();
      this.#open.delete(token);
    }
  }

  /** Throws when the connection is closed or lost. */
  check(what: string): void {
    if (this.#closed) {
      throw new MailboxClosedError("The connection to NATS is closed; open the mailbox again");
    }
    if (!this.connected) throw connectionLost(what);
  }

  get connected(): boolean {
    return this.#connected && !this.#closed && !this.#client.isClosed();
  }

  /**
   * Records that the connection was lost or restored. Open calls end when it is lost, because their
   * answers cannot arrive any more.
   */
  set connected(connected: boolean) {
    this.#connected = connected;
    if (connected) return;
    for (const [token, call] of this.#open) {
      this.#open.delete(token);
      if (call.acceptsPartial?.()) call.resolve();
      else call.reject(connectionLost(call.what));
    }
  }

  /** Lets `close` wait for this work. */
  track<T>(work: Promise<T>): Promise<T> {
    return this.#pending.track(work);
  }

  /** Waits for open calls, up to the limit, and ends the subscription. */
  async close(): Promise<void> {
    const leftMs = CLOSE_WAIT_MS - (this.#clock.monotonic() - this.#lastCallAt);
    await this.#pending.settled(Math.max(0, leftMs), this.#clock);
    this.#closed = true;
    for (const { what, reject } of this.#open.values()) reject(connectionLost(what));
    this.#open.clear();
    this.#timedOut.clear();
    if (!this.#client.isClosed()) this.#subscription.unsubscribe();
  }

  #onMessage(message: NatsMessage): void {
    const [token = "", part = ""] = message.subject.slice(this.#inbox.length + 1).split(".");
    this.#answer(token, message, part);
  }

  #answer(token: string, message: NatsMessage, part: string): void {
    const call = this.#open.get(token);
    if (call === undefined) return this.#timedOut.get(token)?.(message, part);
    if (!call.onAnswer(message, part)) return;
    this.#open.delete(token);
    call.resolve();
  }

  #timeOut(token: string): void {
    const call = this.#open.get(token);
    if (call === undefined) return;
    this.#open.delete(token);
    if (call.onLate !== undefined) {
      this.#timedOut.set(token, call.onLate);
      for (const [oldest] of this.#timedOut) {
        if (this.#timedOut.size <= MAX_TIMED_OUT) break;
        this.#timedOut.delete(oldest);
      }
    }
    if (call.acceptsPartial?.()) return call.resolve();
    call.reject(new NoAnswerError(call.what, this.#timeoutMs));
  }
}
