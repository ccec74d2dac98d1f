import { type Deferred, deferred, settlesWithin, untilAnswered } from "../../_promises.ts";
import { nextTurn } from "../../clock.ts";
import type { Handover, Maybe } from "../../mailbox/engine.ts";
import { encodeHandles, microseconds, RedisDelivery } from "./_delivery.ts";
import { wakeUps } from "../_kit/wake_ups.ts";
import type { Owner } from "./_owner.ts";
import type { RedisLink, RunScript } from "./redis_link.ts";
import type { Settler } from "./_settler.ts";
import { CONFIRM, UNCONFIRMED_US, WAIT_US, WITHDRAW } from "./scripts/handover.ts";

/** How long removing a listener waits for the server. A frozen server must not delay a shutdown. */
const LEAVE_TIMEOUT_MS = 250;

/** How long a receive waits for a message that was handed over earlier. */
export const ARRIVAL_TIMEOUT_MS = 100;

/** Called with a handover, or without one when messages may have become visible. */
export type WakeListener = (handover?: Handover<string>) => void;

/** What {@linkcode Waiting} needs of its engine. */
export interface WaitingOptions {
  readonly link: RedisLink;
  /** The channel on which the queue announces messages. */
  readonly channel: string;
  readonly pollIntervalMs: number;
  /** Absent when owners are not detected: then no message is handed over. */
  readonly owner?: Owner | undefined;
  readonly run: RunScript;
  readonly settler: Settler;
}

/**
 * How receives wait for messages. Notifications wake them, and a poll in case a notification is lost.
 *
 * An empty receive also registers the process as waiting: `not registered ⇄ registered`. A message that is sent
 * may then arrive here without a receive. See `scripts/handover.ts`.
 *
 * The process sends the confirmation before it passes the message on, without waiting for the answer, so that a
 * handler that blocks the event loop already has its lease.
 */
export class Waiting {
  readonly #options: WaitingOptions;
  readonly #listeners = new Set<WakeListener>();
  /** The visibility timeout of the last receive that waits. */
  #visibilityMs = 0;
  /** When the server registered this process as waiting, by its clock; undefined when it is not registered. */
  #waitsSinceUs: number | undefined;
  /** When the last message was handed over. */
  #handedAtUs = 0;
  /** Messages that were handed over before this time may have been released. */
  #withdrawnAtUs = 0;
  #withdrawing: Promise<void> | undefined;
  /** The messages that have arrived and whose confirmation is unanswered. The end of a wait must not release them. */
  readonly #unconfirmed = new Set<string>();
  readonly #closing = new AbortController();
  #arriving: Promise<unknown> | undefined;
  #ending: Promise<void> | undefined;
  /** Resolved by the next message. */
  #expected: Deferred<void> | undefined;

  constructor(options: WaitingOptions) {
    this.#options = options;
    void CONFIRM.sha(); // computed before the first message arrives
  }

  /** Adds a listener. A handover goes to the first one. The remover ends the wait with the last one. */
  listen(listener: WakeListener): () => Maybe<void> {
    const { link: { channels, options: { clock } }, channel, pollIntervalMs } = this.#options;
    const wake = () => listener();
    const wakeInOrder = () => {
      // A message that has arrived before a notification comes first.
      if (this.#arriving === undefined) wake();
      else void this.#arriving.then(wake);
    };
    const listen = () => channels.listen(channel, wakeInOrder);
    const stopWaking = wakeUps(listen, clock, pollIntervalMs, wake);
    this.#listeners.add(listener);
    return () => {
      stopWaking();
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) return this.#leave();
    };
  }

  /** Stops repeating confirmations. */
  close(): void {
    this.#closing.abort();
  }

  /** Set while a wait ends. The next receive finds messages that were handed over too late. */
  get ending(): Promise<void> | undefined {
    return this.#ending;
  }

  /** Returns the owner for a receive to register as waiting, or "". */
  ownerFor(visibilityMs: number): string {
    const { owner } = this.#options;
    if (owner?.isReachable !== true || this.#listeners.size === 0) return "";
    this.#visibilityMs = visibilityMs;
    return owner.id;
  }

  /**
   * Waits for a message that was handed over before a receive of this server time found others, because it must be
   * delivered first. Gives up after a short time, because it may be lost.
   */
  async arrival(nowUs: number): Promise<void> {
    const { clock } = this.#options.link.options;
    const arrivesUntilUs = (this.#waitsSinceUs ?? -Infinity) + WAIT_US + ARRIVAL_TIMEOUT_MS * 1_000;
    if (nowUs < arrivesUntilUs) {
      this.#expected ??= deferred();
      await settlesWithin(this.#expected.promise, ARRIVAL_TIMEOUT_MS, clock);
    }
    await this.#arriving;
  }

  /** Records whether a receive at this server time registered this process. */
  onReceived(isWaiting: boolean, nowUs: number): void {
    this.#waitsSinceUs = isWaiting && nowUs > this.#handedAtUs ? nowUs : undefined;
  }

  /** Accepts a message, or wakes a receive if the text contains none. */
  onNotice(text: string): void {
    const [head, seq, nowUs] = /^(\d+) (\d+) /.exec(text) ?? [];
    if (head === undefined || seq === undefined) {
      for (const listener of this.#listeners) listener();
      return;
    }
    this.#handedAtUs = Number(nowUs);
    if (this.#handedAtUs > (this.#waitsSinceUs ?? 0)) this.#waitsSinceUs = undefined;
    const arrival = this.#arrive(seq, this.#handedAtUs, text.slice(head.length));
    const arriving = this.#arriving = Promise.all([this.#arriving, arrival]);
    this.#expected?.resolve();
    this.#expected = undefined;
    void arriving.then(() => {
      if (this.#arriving === arriving) this.#arriving = undefined;
    });
  }

  /** Never rejects. */
  async #arrive(seq: string, handedAtUs: number, record: string): Promise<void> {
    const { link, owner, settler } = this.#options;
    const { clock } = link.options;
    if (this.#withdrawing !== undefined) await this.#withdrawing;
    const visibilityMs = this.#visibilityMs;
    const visibilityUs = microseconds(visibilityMs);
    const receiveId = `${owner!.id}-0`;
    const delivery = new RedisDelivery(seq, 1, record, null, receiveId, handedAtUs + visibilityUs);
    const confirming = this.#confirm(delivery, visibilityUs);
    if (link.sendsAtOnce && this.#isTimely(handedAtUs)) await nextTurn(clock);
    else if (!await confirming) return;
    const [listener] = this.#listeners;
    if (listener !== undefined) {
      const now = Math.floor(handedAtUs / 1_000);
      return listener({ deliveries: [delivery], nextDueMs: 0, now, visibilityMs });
    }
    await this.#repeat("release a message", () => settler.release([delivery]));
  }

  /** Begins the lease of a message. Returns false when its first, short lease had ended. Never rejects. */
  async #confirm(delivery: RedisDelivery, visibilityUs: number): Promise<boolean> {
    const { seq, receiveId } = delivery;
    const values = [encodeHandles([delivery]), receiveId, visibilityUs];
    const what = "confirm a message";
    this.#unconfirmed.add(seq);
    const reply = await this.#repeat(what, () => this.#options.run(what, CONFIRM, values));
    this.#unconfirmed.delete(seq);
    return reply?.[1] === 1;
  }

  /** Repeats a failed call. Otherwise a message would stay leased, and no handler would get it. */
  #repeat<T>(what: string, call: () => Promise<T>): Promise<T | undefined> {
    const { clock, log } = this.#options.link.options;
    return untilAnswered(call, clock, this.#closing.signal, (error) => {
      log.debug(`cannot ${what} after a handover; trying again`, { error });
    });
  }

  /** Returns false if another process may have the message, because this one was frozen or ended its wait. */
  #isTimely(handedAtUs: number): boolean {
    const ageUs = this.#options.link.latestUs - handedAtUs;
    return ageUs < UNCONFIRMED_US / 2 && handedAtUs > this.#withdrawnAtUs;
  }

  /** Ends the wait. Returns undefined if no message can arrive. */
  #leave(): Maybe<void> {
    if (this.#waitsSinceUs === undefined && this.#arriving === undefined) return;
    const leaving = this.#withdrawing = this.#withdraw();
    void leaving.then(() => {
      if (this.#withdrawing === leaving) this.#withdrawing = undefined;
    });
    const left = Promise.all([leaving, this.#arriving]);
    const { clock } = this.#options.link.options;
    const ending = settlesWithin(left, LEAVE_TIMEOUT_MS, clock).then(() => {
      if (this.#ending === ending) this.#ending = undefined;
    });
    return this.#ending = ending;
  }

  async #withdraw(): Promise<void> {
    const { link, owner, run } = this.#options;
    if (this.#waitsSinceUs === undefined) return;
    this.#waitsSinceUs = undefined;
    const reply = await run("end a wait", WITHDRAW, [owner!.id, ...this.#unconfirmed])
      .catch((error) => {
        const event = "cannot end a wait; a message that was handed over reappears";
        link.options.log.debug(event, { error });
      });
    // Without an answer, the server may still end the wait.
    this.#withdrawnAtUs = reply === undefined ? link.window.untilUs : reply[0] as number;
  }
}
