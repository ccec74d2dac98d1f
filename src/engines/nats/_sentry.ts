import { settlesWithin } from "../../_promises.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { NatsConnection, NatsMessage, NatsSubscription } from "./nats_connection.ts";

/** How long after its end a request that says nothing is taken for lost. */
const GRACE_MS = 1_000;

/** After something other than a message or the end of its time has come. */
const PAUSE_MS = 1_000;

/** Longer, and it could not be told when a message was delivered to it; see the leases. */
const LONGEST_MS = 8_000;

/** What comes when nobody waits is kept for so long, for whoever looks next. */
const HOLD_MS = 100;

const REQUEST_TIMEOUT = 408;
const GOODBYE_MS = 1_000;

/** A message that has come to the sentry. */
export interface Caught {
  readonly message: NatsMessage;
  /** It was delivered then, or later. */
  readonly deliveredAt: number;
}

/** What a sentry needs to know. */
export interface SentryOptions {
  readonly connection: NatsConnection;
  readonly clock: Clock;
  /** Where to ask for a message. */
  readonly subject: string;
  readonly inboxPrefix: string;
  readonly pollIntervalMs: number;
  /** True while somebody waits. */
  readonly isWanted: () => boolean;
  /** Somebody has to look: a message was caught, or it is not known whether one is there. */
  readonly wake: () => void;
  /** Takes what nobody waits for any more. */
  readonly giveBack: (messages: readonly NatsMessage[]) => void;
  /** Has the server forget requests of those who are gone. */
  readonly sweep: () => Promise<unknown>;
}

interface Watch {
  readonly subscription: NatsSubscription;
  readonly startedAt: number;
  readonly cancel: Cancel;
}

/**
 * Waits for one message while somebody wants to be woken: `off ─▶ on ─▶ off`, by a message or by the
 * end of its time. It asks the server for the next message that becomes
 * visible, for whatever reason, and keeps it for whoever looks next. It is put up by those who have looked
 * in vain, so that nobody asks for more than is wanted.
 */
export class Sentry {
  readonly #options: SentryOptions;
  readonly #caught: Caught[] = [];
  #watch: Watch | undefined;
  #cancelPause: Cancel | undefined;
  #cancelHolding: Cancel | undefined;

  constructor(options: SentryOptions) {
    this.#options = options;
  }

  /** What has been caught, at most `max`. */
  take(max: number): Caught[] {
    return this.#caught.splice(0, max);
  }

  /** Waits from now on, unless it does or has something. */
  putUp(): void {
    if (this.#watch !== undefined || this.#caught.length > 0) return;
    this.#cancelPause?.();
    const { connection, clock, subject, inboxPrefix, pollIntervalMs } = this.#options;
    const inbox = `${inboxPrefix}.${crypto.randomUUID()}`;
    const expiresMs = Math.min(pollIntervalMs * (0.75 + Math.random() / 2), LONGEST_MS);
    const subscription = connection.subscribe(inbox, {
      max: 1,
      callback: (error, message) => error ?? this.#hear(watch, message),
    });
    const watch: Watch = this.#watch = {
      subscription,
      startedAt: clock.monotonic(),
      cancel: clock.schedule(expiresMs + GRACE_MS, () => this.renew()),
    };
    const request = JSON.stringify({ batch: 1, expires: Math.ceil(expiresMs) * 1_000_000 });
    connection.publish(subject, request, { reply: inbox });
  }

  /** It may have been forgotten: somebody looks, and puts it up again. */
  renew(): void {
    this.#dismiss()?.unsubscribe();
    this.#options.wake();
  }

  /**
   * Nobody waits any more. The request goes on until its end, or until somebody waits again: to end it
   * could cost a message that is on its way an attempt.
   */
  callOff(): void {
    this.#cancelPause?.();
    this.#giveBackSoon();
  }

  /**
   * Gives everything back, and resolves when nothing can come any more. A server that delivers to a place
   * which is gone may confuse what it delivers next, so it is made to forget the request.
   */
  async close(): Promise<void> {
    const { connection, clock, sweep } = this.#options;
    this.#cancelPause?.();
    const subscription = this.#dismiss();
    if (subscription !== undefined && !connection.isClosed()) {
      await settlesWithin(subscription.drain().then(sweep), GOODBYE_MS, clock);
    }
    this.#giveBack();
  }

  #giveBackSoon(): void {
    if (this.#caught.length === 0) return;
    this.#cancelHolding?.();
    this.#cancelHolding = this.#options.clock.schedule(HOLD_MS, () => {
      if (!this.#options.isWanted()) this.#giveBack();
    });
  }

  #giveBack(): void {
    this.#cancelHolding?.();
    const left = this.#caught.splice(0).map(({ message }) => message);
    if (left.length > 0) this.#options.giveBack(left);
  }

  #dismiss(): NatsSubscription | undefined {
    const watch = this.#watch;
    this.#watch = undefined;
    watch?.cancel();
    return watch?.subscription;
  }

  #hear(watch: Watch, message: NatsMessage): void {
    const { clock, wake, isWanted } = this.#options;
    const { code = 0 } = message.headers ?? {};
    const dismissed = watch !== this.#watch;
    if (!dismissed) this.#dismiss();
    if (code === 0) {
      // If this process was suspended, the message may be somebody else's by now.
      if (clock.monotonic() - watch.startedAt > LONGEST_MS + GRACE_MS) return wake();
      this.#caught.push({ message, deliveredAt: watch.startedAt });
      return isWanted() ? wake() : this.#giveBackSoon();
    }
    if (dismissed || !isWanted()) return;
    if (code === REQUEST_TIMEOUT) this.putUp();
    else this.#cancelPause = clock.schedule(PAUSE_MS, wake);
  }
}
