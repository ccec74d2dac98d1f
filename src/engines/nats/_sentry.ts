import { type Deferred, deferred, settlesWithin } from "../../_promises.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { NatsConnection, NatsMessage, NatsSubscription } from "./nats_connection.ts";

/** How long after its end a request that says nothing is taken for lost. */
const GRACE_MS = 1_000;

/** After something other than a message or the end of its time has come. */
const PAUSE_MS = 1_000;

/**
 * How long a request waits. Whoever leaves has to wait for its end, because it cannot be taken back: what
 * is on its way to it would be lost for a while, and the server may confuse it with what it delivers next.
 */
const LONGEST_MS = 250;

/** If this process was suspended for longer, a message may be somebody else's by now; see the leases. */
const STILL_OURS_MS = 9_000;

const REQUEST_TIMEOUT = 408;

/** A server that says nothing for so long after the end is away or frozen, and holds up no stop. */
const LATE_MS = 100;

/** Likewise for what it is told about a message that has come: two calls. */
const GIVE_BACK_MS = 500;

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
  readonly subject: () => string;
  readonly inboxPrefix: string;
  readonly pollIntervalMs: number;
  /** True while somebody waits. */
  readonly isWanted: () => boolean;
  /** Somebody has to look: a message was caught, or it is not known whether one is there. */
  readonly wake: () => void;
  /** Takes what nobody waits for any more. */
  readonly giveBack: (messages: readonly NatsMessage[]) => Promise<void>;
}

interface Watch {
  readonly subscription: NatsSubscription;
  readonly startedAt: number;
  readonly cancel: Cancel;
  readonly ended: Deferred<void>;
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
  #returning: Promise<unknown> = Promise.resolve();
  #closed = false;

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
      ended: deferred(),
    };
    const request = JSON.stringify({ batch: 1, expires: Math.ceil(expiresMs) * 1_000_000 });
    connection.publish(subject(), request, { reply: inbox });
  }

  /** What has been caught comes again elsewhere, and cannot be settled from here. */
  forget(): void {
    this.#caught.length = 0;
    this.renew();
  }

  /** It may have been forgotten: somebody looks, and puts it up again. */
  renew(): void {
    this.#dismiss()?.unsubscribe();
    this.#options.wake();
  }

  /**
   * Nobody waits any more, and perhaps this process ends. The request goes on until its end; resolves
   * when nothing can come any more and what has come is there for others, or when somebody waits again.
   */
  async callOff(): Promise<void> {
    const { clock } = this.#options;
    this.#cancelPause?.();
    const ended = this.#watch?.ended.promise;
    if (ended !== undefined) await settlesWithin(ended, LONGEST_MS + LATE_MS, clock);
    await settlesWithin(this.#giveBack(), GIVE_BACK_MS, clock);
  }

  /** Gives everything back, and ends. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.callOff();
    const subscription = this.#dismiss();
    if (!this.#options.connection.isClosed()) subscription?.unsubscribe();
  }

  /** What nobody waits for goes back; resolves when all of that is there for others. */
  #giveBack(): Promise<unknown> {
    if (this.#caught.length > 0 && !this.#wanted) {
      const left = this.#caught.splice(0).map(({ message }) => message);
      this.#returning = Promise.all([this.#returning, this.#options.giveBack(left)]);
    }
    return this.#returning;
  }

  get #wanted(): boolean {
    return !this.#closed && this.#options.isWanted();
  }

  #dismiss(): NatsSubscription | undefined {
    const watch = this.#watch;
    this.#watch = undefined;
    watch?.cancel();
    watch?.ended.resolve();
    return watch?.subscription;
  }

  #hear(watch: Watch, message: NatsMessage): void {
    const { clock, wake } = this.#options;
    const { code = 0 } = message.headers ?? {};
    const dismissed = watch !== this.#watch;
    if (!dismissed) this.#dismiss();
    if (code === 0) {
      if (clock.monotonic() - watch.startedAt > STILL_OURS_MS) return wake();
      this.#caught.push({ message, deliveredAt: watch.startedAt });
      return this.#wanted ? wake() : void this.#giveBack();
    }
    if (dismissed || !this.#wanted) return;
    if (code === REQUEST_TIMEOUT) this.putUp();
    else this.#cancelPause = clock.schedule(PAUSE_MS, wake);
  }
}
