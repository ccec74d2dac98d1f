import { settlesWithin, untilAnswered } from "../../_promises.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Delivery, Entry, Handover } from "../../mailbox/engine.ts";
import type { Random } from "../../random.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import { isForbidden } from "./_calls.ts";
import type { PostgresLink } from "./postgres_link.ts";
import { isPlain } from "./_sends.ts";
import { type Call, PostgresDelivery, type Row } from "./_settlements.ts";
import { CONFIRM_MS } from "./_statements.ts";

/** The longest time that a registration lasts, so that sends soon stop choosing a frozen or dead process. */
const MAX_WAIT_MS = 60_000;

/**
 * How long sends skip the handover after one found no waiting receive. Looking for one takes a third of the time of a
 * send.
 */
const RETRY_MS = 50;

/** How long a receive waits for a message that was handed over earlier. */
const ARRIVAL_MS = 100;

/** `<receipt> <number>`. Another text is forged: any session that knows the channel may notify it. */
const HANDED = /^(\d+) (\d{1,18})$/;

/** What {@linkcode Handovers} needs of its engine. */
interface HandoversOptions {
  readonly pollIntervalMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly registers?: boolean | undefined;
}

/** A registered wait. The message that is handed over gets its receipt. */
interface Registration {
  readonly receipt: string;
  readonly visibilityMs: number;
}

/**
 * Hands messages over to waiting receives, and accepts messages that are handed over to this process.
 *
 * A waiting receive registers itself. In one statement, the send of a single message takes a registration, leases the
 * message with its receipt for a short time, and notifies the inbox of the process. The process confirms the message,
 * which begins the lease, counts the attempt and returns the message. It delivers the message after the answer, because
 * a handler may block the event loop: a confirmation that was only queued would be sent too late. When a handover is
 * lost, the short lease ends without an attempt.
 *
 * The next receive first ends the registration. If a send has used it, that message is older than those that the
 * receive would find, so the waiting receive gets it first.
 *
 * A process registers only while it is an owner of leases, which it is not behind a connection pooler.
 */
export class Handovers {
  readonly #queue: string;
  readonly #options: HandoversOptions;
  readonly #link: PostgresLink;
  readonly #call: Call;
  readonly #release: (deliveries: readonly Delivery<string>[]) => Promise<unknown>;
  #listener: ((handover: Handover<string>) => void) | undefined;
  #registration: Registration | undefined;
  /** The messages that are being confirmed. Resolves with true if the listener got one of them. Never rejects. */
  #arriving: Promise<boolean> | undefined;
  /** The changes of the registration that have begun. Never rejects. */
  #changing: Promise<void> | undefined;
  readonly #closing = new AbortController();
  #cancelWake: Cancel | undefined;
  #nextTryAt = -Infinity;
  #available: boolean;

  constructor(
    queue: string,
    options: HandoversOptions,
    link: PostgresLink,
    call: Call,
    release: (deliveries: readonly Delivery<string>[]) => Promise<unknown>,
  ) {
    this.#queue = queue;
    this.#options = options;
    this.#link = link;
    this.#call = call;
    this.#release = release;
    this.#available = options.registers === true;
  }

  /**
   * Stores one message without a delay or key, and hands it over if a receive waits. Stores nothing and returns
   * undefined for other messages, and when it is too soon to look for a receive again.
   */
  async trySend(
    entries: readonly Entry<string>[],
    parameters: SqlParameter[],
  ): Promise<readonly SqlRow[] | undefined> {
    if (!this.#canSend(entries)) return undefined;
    const rows = await this.#permitted(() => this.#call("handOver", "send", parameters));
    if (Number(rows?.[0]?.handed) > 0) this.#wakeLater();
    else {
      this.#nextTryAt = this.#options.clock.monotonic() + RETRY_MS;
      this.#link.wake(this.#queue);
    }
    return rows;
  }

  #canSend(entries: readonly Entry<string>[]): boolean {
    return this.#available && entries.length === 1 && entries[0]!.delayMs === 0 &&
      isPlain(entries) && this.#options.clock.monotonic() >= this.#nextTryAt;
  }

  /** Calls `listener` with handovers until the returned function is called. */
  listen(listener: (handover: Handover<string>) => void): () => Promise<void> {
    this.#listener = listener;
    const stop = this.#link.wakeUps.onHandover(this.#queue, (handed) => this.#onHandover(handed));
    return async () => {
      if (this.#listener === listener) this.#listener = undefined;
      await this.#inTurn(() => this.#withdraw());
      await this.#arriving;
      stop();
    };
  }

  /**
   * Ends the registration before a receive. Returns true if the listener got a message that was handed over. With a
   * registration, the receive could return younger messages first, and a message that is sent during the call could
   * overtake those that it finds. A call that does not wait ends the registration too.
   */
  async end(): Promise<boolean> {
    const canChange = this.#registration !== undefined || this.#changing !== undefined;
    if (canChange) await this.#inTurn(() => this.#end());
    const arriving = this.#arriving;
    if (arriving === undefined) return false;
    return await settlesWithin(arriving, ARRIVAL_MS, this.#options.clock) && await arriving;
  }

  /** Registers a wait, unless another receive has registered one meanwhile. */
  async register(visibilityMs: number): Promise<void> {
    const { pollIntervalMs, random } = this.#options;
    const { owners, wakeUps } = this.#link;
    await this.#inTurn(async () => {
      if (!this.#available || this.#listener === undefined || this.#registration !== undefined) {
        return;
      }
      if (!owners.isRegistered || !wakeUps.openInbox()) return;
      const receipt = owners.receipt(random);
      this.#registration = { receipt, visibilityMs };
      const endsMs = Math.min(2 * pollIntervalMs, MAX_WAIT_MS);
      const parameters = [receipt, this.#queue, wakeUps.inbox, `${endsMs}`];
      await this.#permitted(() => this.#call("wait", "wait for messages", parameters));
    });
  }

  /** Cancels what is scheduled, and stops repeating confirmations. */
  close(): void {
    this.#closing.abort();
    this.#cancelWake?.();
  }

  /** Returns undefined if the role has no permission for the table, and turns handovers off. */
  async #permitted(
    call: () => Promise<readonly SqlRow[]>,
  ): Promise<readonly SqlRow[] | undefined> {
    try {
      return await call();
    } catch (error) {
      if (!isForbidden(error)) throw error;
      this.#available = false;
      this.#registration = undefined;
      const { log } = this.#options;
      log.debug("no permission to hand messages over", { mailbox: this.#queue, error });
      return undefined;
    }
  }

  /** Wakes the receivers when a message that was handed over, but not confirmed, is visible again. */
  #wakeLater(): void {
    this.#cancelWake ??= this.#options.clock.schedule(CONFIRM_MS, () => {
      this.#cancelWake = undefined;
      this.#link.wake(this.#queue);
    });
  }

  /**
   * Changes the registration when the changes before are complete. Otherwise two receives would register, and a
   * registration could be ended on one connection before it is made on another one.
   */
  #inTurn(change: () => Promise<void>): Promise<void> {
    const changed = this.#changing === undefined ? change() : this.#changing.then(change);
    const onEnd = () => {
      if (this.#changing === changing) this.#changing = undefined;
    };
    const changing = this.#changing = changed.then(onEnd, onEnd);
    return changed;
  }

  /** Ends the registration. If it was used and the message has not arrived, confirms that message. */
  async #end(): Promise<void> {
    const registration = this.#registration;
    if (registration === undefined) return;
    const { receipt } = registration;
    const ended = await this.#permitted(() => this.#call("withdraw", "receive", [receipt]));
    if (this.#registration !== registration) return; // it has arrived, or there is no permission
    this.#registration = undefined;
    if (ended!.length > 0) return;
    const [handed] = await this.#call("findHanded", "receive", [this.#queue, receipt]);
    if (handed !== undefined) this.#arrive(String(handed.number), registration);
  }

  /** Ends the registration. If it was used and the message has not arrived, releases that message. */
  async #withdraw(): Promise<void> {
    const { receipt } = this.#registration ?? {};
    if (receipt === undefined) return;
    this.#registration = undefined;
    try {
      const ended = await this.#call("withdraw", "end a wait", [receipt]);
      if (ended.length > 0) return;
      const released = await this.#call("releaseHanded", "release", [this.#queue, receipt]);
      if (released.length > 0) this.#link.wake(this.#queue);
    } catch (error) {
      const { log } = this.#options;
      log.debug("could not end a wait; a message that was handed over reappears", { error });
    }
  }

  #onHandover(handed: string): void {
    const registration = this.#registration;
    const [, receipt, number] = HANDED.exec(handed) ?? [];
    if (registration === undefined || number === undefined) return;
    if (receipt !== registration.receipt) return; // the message was released, or is soon visible again
    this.#registration = undefined;
    this.#arrive(number, registration);
  }

  /** Confirms and delivers a message. */
  #arrive(number: string, registration: Registration): void {
    const all = Promise.all([this.#arriving, this.#confirmAndDeliver(number, registration)]);
    const arriving = this.#arriving = all.then((delivered) => {
      if (this.#arriving === arriving) this.#arriving = undefined;
      return delivered.includes(true);
    });
  }

  /**
   * Begins the lease of a message and delivers it. Returns false if its first, short lease had ended, or if no receive
   * waits. Never rejects.
   */
  async #confirmAndDeliver(
    number: string,
    { receipt, visibilityMs }: Registration,
  ): Promise<boolean> {
    const parameters = [number, receipt, `${visibilityMs}`];
    const what = "confirm a message";
    const rows = await this.#repeat(what, () => this.#call("confirm", what, parameters));
    const row = (rows as readonly unknown[] | undefined)?.[0] as Row | undefined;
    if (row === undefined) return false;
    const deliveries = [new PostgresDelivery(row, receipt)];
    if (this.#listener === undefined) {
      await this.#repeat("release a message", () => this.#release(deliveries));
      return false;
    }
    const now = Math.floor(Number(row.now));
    this.#listener({ deliveries, nextDueMs: 0, now, visibilityMs });
    return true;
  }

  /** Repeats a failed call. Otherwise a message would stay leased, and no handler would get it. */
  #repeat<T>(what: string, call: () => Promise<T>): Promise<T | undefined> {
    const { clock, log } = this.#options;
    return untilAnswered(call, clock, this.#closing.signal, (error) => {
      log.debug(`cannot ${what} after a handover; trying again`, { mailbox: this.#queue, error });
    });
  }
}
