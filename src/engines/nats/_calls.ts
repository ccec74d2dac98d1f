import { settlesWithin } from "../../_promises.ts";
import { type Clock, nextTurn } from "../../clock.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import {
  connectionError,
  connectionLost,
  JetStreamError,
  NO_RESPONDERS,
  NoAnswerError,
} from "./_errors.ts";
import type { NatsConnection, NatsMessage, NatsSubscription } from "./nats_connection.ts";

/**
 * A close waits only for calls that started within this time, so that a frozen server does not delay a
 * stop.
 */
const CLOSE_WAIT_MS = 1_000;

/** How many timed-out calls still accept a late answer. */
const MAX_TIMED_OUT = 1_000;

/** Handles one answer. Returns true when it was the last one. */
export type OnAnswer = (message: NatsMessage, part: string) => boolean;

/**
 * Publishes a request. Answers arrive at `reply`; `onMessage` takes those that arrive on another subject.
 */
export type Send = (reply: string, onMessage: (message: NatsMessage) => void) => void;

/** How a call handles its answers. */
export interface CallOptions {
  readonly onAnswer: OnAnswer;
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

/**
 * Requests to the server, each with a timeout. All answers arrive at one subscription. The last parts of
 * the subject name the call and the part of the call that they answer.
 */
export class Calls {
  readonly #connection: NatsConnection;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #inbox: string;
  readonly #subscription: NatsSubscription;
  readonly #open = new Map<string, Call>();
  readonly #timedOut = new Map<string, NonNullable<CallOptions["onLate"]>>();
  /** Work that a close waits for. */
  readonly #pending = new Set<Promise<unknown>>();
  #last = 0;
  #lastCallAt = 0;
  #connected = true;
  #closed = false;

  constructor(connection: NatsConnection, inboxPrefix: string, clock: Clock, timeoutMs: number) {
    this.#connection = connection;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#inbox = `${inboxPrefix}.${crypto.randomUUID()}`;
    this.#subscription = connection.subscribe(`${this.#inbox}.>`, {
      callback: (error, message) => error ?? this.#onMessage(message),
    });
  }

  /** Sends a request and returns its single answer. */
  async request(
    what: string,
    subject: string,
    payload: Uint8Array | string = "",
  ): Promise<NatsMessage> {
    let answer: NatsMessage | undefined;
    const onAnswer = (message: NatsMessage) => (answer = message, true);
    await this.run(what, (reply) => this.#connection.publish(subject, payload, { reply }), {
      onAnswer,
    });
    if (answer!.headers?.code === NO_RESPONDERS) throw noResponders(what);
    return answer!;
  }

  /** Calls `send` and resolves when `onAnswer` has returned true. */
  async run(what: string, send: Send, options: CallOptions): Promise<void> {
    this.check(what);
    const token = `${++this.#last}`;
    this.#lastCallAt = this.#clock.monotonic();
    const answered = new Promise<void>((resolve, reject) => {
      this.#open.set(token, { ...options, what, resolve, reject });
    });
    const cancel = this.#clock.schedule(this.#timeoutMs, () => this.#giveUp(token));
    try {
      send(`${this.#inbox}.${token}`, (message) => this.#answer(token, message, ""));
      await this.background(answered);
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
    if (!this.#connected || this.#connection.isClosed()) throw connectionLost(what);
  }

  get connected(): boolean {
    return this.#connected && !this.#closed && !this.#connection.isClosed();
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
  background<T>(work: Promise<T>): Promise<T> {
    this.#pending.add(work);
    const over = () => void this.#pending.delete(work);
    work.then(over, over);
    return work;
  }

  /** Waits for open calls, up to the limit, and ends the subscription. */
  async close(): Promise<void> {
    const leftMs = CLOSE_WAIT_MS - (this.#clock.monotonic() - this.#lastCallAt);
    await settlesWithin(this.#settled(), Math.max(0, leftMs), this.#clock);
    this.#closed = true;
    for (const { what, reject } of this.#open.values()) reject(connectionLost(what));
    this.#open.clear();
    this.#timedOut.clear();
    if (!this.#connection.isClosed()) this.#subscription.unsubscribe();
  }

  async #settled(): Promise<void> {
    // A receiver that got messages during the close releases them within this turn.
    do {
      await Promise.allSettled(this.#pending);
      await nextTurn();
    } while (this.#pending.size > 0);
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

  #giveUp(token: string): void {
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

/** Returns the error for a subject without subscribers. */
export function noResponders(what: string): JetStreamError {
  return new JetStreamError(what, NO_RESPONDERS, "no responders");
}
