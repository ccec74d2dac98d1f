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

/** A close waits for calls that are younger: longer, and a frozen server would hold up a stop. */
const LINGER_MS = 1_000;

/** So many calls that were given up are remembered, in case that an answer comes after all. */
const MAX_GIVEN_UP = 1_000;

/** Whoever gets answers: true when no more will come. */
export type OnAnswer = (message: NatsMessage, part: string) => boolean;

/** Sends a question: where answers are expected, and where those go that come elsewhere. */
export type Send = (reply: string, hear: (message: NatsMessage) => void) => void;

/** What to do with answers, apart from waiting for the last of them. */
export interface CallOptions {
  readonly onAnswer: OnAnswer;
  /** Gets answers that come after the call was given up. */
  readonly onLate?: (message: NatsMessage, part: string) => void;
  /** True when the answers that have come by then are enough, once the time is over. */
  readonly isEnough?: () => boolean;
}

interface Call extends CallOptions {
  readonly what: string;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * Questions to a server and their answers, each within its time. All answers come to one subscription;
 * the last parts of their subject tell which call they belong to, and which part of it.
 */
export class Calls {
  readonly #connection: NatsConnection;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #inbox: string;
  readonly #subscription: NatsSubscription;
  readonly #open = new Map<string, Call>();
  readonly #givenUp = new Map<string, NonNullable<CallOptions["onLate"]>>();
  /** Work that goes on though nobody waits for it. */
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
      callback: (error, message) => error ?? this.#hear(message),
    });
  }

  /** Asks a question that has one answer. */
  async ask(
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

  /**
   * Sends what `send` sends, and resolves when all its answers have come. They come to the address that
   * `send` gets, or to its second parameter.
   */
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

  /** Refuses to begin what cannot be sent. */
  check(what: string): void {
    if (this.#closed) throw new MailboxClosedError("The connection to NATS is closed here");
    if (!this.#connected || this.#connection.isClosed()) throw connectionLost(what);
  }

  get connected(): boolean {
    return this.#connected && !this.#closed && !this.#connection.isClosed();
  }

  /** The connection went away, or came back. What was under way then gets no answer any more. */
  set connected(connected: boolean) {
    this.#connected = connected;
    if (connected) return;
    for (const [token, call] of this.#open) {
      this.#open.delete(token);
      if (call.isEnough?.()) call.resolve();
      else call.reject(connectionLost(call.what));
    }
  }

  /** Has a close wait for it, so long as it waits at all. */
  background<T>(work: Promise<T>): Promise<T> {
    this.#pending.add(work);
    const over = () => void this.#pending.delete(work);
    work.then(over, over);
    return work;
  }

  /** Ends the subscription when no call is under way, or when the youngest has taken too long. */
  async close(): Promise<void> {
    const leftMs = LINGER_MS - (this.#clock.monotonic() - this.#lastCallAt);
    await settlesWithin(this.#settled(), Math.max(0, leftMs), this.#clock);
    this.#closed = true;
    for (const { what, reject } of this.#open.values()) reject(connectionLost(what));
    this.#open.clear();
    this.#givenUp.clear();
    if (!this.#connection.isClosed()) this.#subscription.unsubscribe();
  }

  async #settled(): Promise<void> {
    // Whoever was handed something at this very moment gives it back within this turn.
    do {
      await Promise.allSettled(this.#pending);
      await nextTurn();
    } while (this.#pending.size > 0);
  }

  #hear(message: NatsMessage): void {
    const [token = "", part = ""] = message.subject.slice(this.#inbox.length + 1).split(".");
    this.#answer(token, message, part);
  }

  #answer(token: string, message: NatsMessage, part: string): void {
    const call = this.#open.get(token);
    if (call === undefined) return this.#givenUp.get(token)?.(message, part);
    if (!call.onAnswer(message, part)) return;
    this.#open.delete(token);
    call.resolve();
  }

  #giveUp(token: string): void {
    const call = this.#open.get(token);
    if (call === undefined) return;
    this.#open.delete(token);
    if (call.onLate !== undefined) {
      this.#givenUp.set(token, call.onLate);
      for (const [oldest] of this.#givenUp) {
        if (this.#givenUp.size <= MAX_GIVEN_UP) break;
        this.#givenUp.delete(oldest);
      }
    }
    if (call.isEnough?.()) return call.resolve();
    call.reject(new NoAnswerError(call.what, this.#timeoutMs));
  }
}

/** Nobody listens where the call went to. */
export function noResponders(what: string): JetStreamError {
  return new JetStreamError(what, NO_RESPONDERS, "no responders");
}
