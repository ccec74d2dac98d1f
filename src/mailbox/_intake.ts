import { errorText } from "../errors.ts";
import { deferred, onAbort } from "../_promises.ts";
import { type Cancel, type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { Codec } from "./codec.ts";
import { deadLetterOf } from "./dead_letter.ts";
import type { Delivery, Engine, Maybe, Pulled } from "./engine.ts";
import { EngineMessage } from "./_engine_message.ts";
import type { Message } from "./mailbox.ts";
import type { MailboxOptions } from "./mailbox_options.ts";

/** How long an engine may take to hand over what nobody wants any more, before nobody waits for it. */
const LATE_MS = 1_000;

/** What one look into the engine gave. */
export interface Taken<T, R> {
  readonly messages: Message<T, R>[];
  readonly nextDueMs: number;
}

/** The way from an engine's deliveries to messages. */
export class Intake<T, R, B> {
  readonly #name: string;
  readonly #engine: Engine<B>;
  readonly #codec: Codec<B>;
  readonly #options: MailboxOptions;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #closing: AbortSignal;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(
    name: string,
    engine: Engine<B>,
    codec: Codec<B>,
    options: MailboxOptions,
    closing: AbortSignal,
  ) {
    this.#name = name;
    this.#engine = engine;
    this.#codec = codec;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
    this.#closing = closing;
  }

  /** Takes what is there. What comes at the moment of an abort or a close is given back. */
  take(max: number, visibilityMs: number, signal: AbortSignal | undefined): Maybe<Taken<T, R>> {
    if (this.#closing.aborted || signal?.aborted) return { messages: [], nextDueMs: Infinity };
    const pulled = this.#engine.pull(max, visibilityMs);
    if (!(pulled instanceof Promise)) return this.#open(pulled);
    const taking = this.#notForEver(this.#openLate(pulled, signal), signal);
    this.#underWay.add(taking);
    const over = () => void this.#underWay.delete(taking);
    taking.then(over, over);
    return taking;
  }

  /** Resolves when no look into the engine is under way; after a close, that is soon. */
  async quiet(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  async #openLate(
    pulled: Promise<Pulled<B>>,
    signal: AbortSignal | undefined,
  ): Promise<Taken<T, R>> {
    const late = await pulled;
    if (!this.#closing.aborted && !signal?.aborted) return await this.#open(late);
    try {
      if (late.deliveries.length > 0) await this.#engine.release(late.deliveries);
    } catch (error) {
      this.#log.warn(`could not give back to "${this.#name}"; the leases decide`, { error });
    }
    return { messages: [], nextDueMs: Infinity };
  }

  /** After an abort an engine that hangs is waited for only so long; what it hands over goes back then. */
  async #notForEver(
    taking: Promise<Taken<T, R>>,
    signal: AbortSignal | undefined,
  ): Promise<Taken<T, R>> {
    const gaveUp = deferred<Taken<T, R>>();
    let cancel: Cancel | undefined;
    const unlinks = [signal, this.#closing].map((abort) =>
      onAbort(abort, () => {
        cancel ??= this.#clock.schedule(LATE_MS, () => {
          this.#giveBackLate(taking);
          gaveUp.resolve({ messages: [], nextDueMs: Infinity });
        });
      })
    );
    try {
      return await Promise.race([taking, gaveUp.promise]);
    } finally {
      for (const unlink of unlinks) unlink();
      cancel?.();
    }
  }

  async #giveBackLate(taking: Promise<Taken<T, R>>): Promise<void> {
    try {
      const { messages } = await taking;
      for (const message of messages) await message.release();
    } catch (error) {
      this.#log.warn(`a late receive from "${this.#name}" failed`, { error });
    }
  }

  /** Makes messages of deliveries. Those that cannot be read are buried, and hold up nobody. */
  #open({ deliveries, nextDueMs }: Pulled<B>): Maybe<Taken<T, R>> {
    if (deliveries.length === 0) return { messages: [], nextDueMs };
    const messages: Message<T, R>[] = [];
    const burials: Promise<void>[] = [];
    for (const delivery of deliveries) {
      try {
        messages.push(this.#message(delivery));
      } catch (error) {
        burials.push(this.#buryUnreadable(delivery, error));
      }
    }
    const taken = { messages, nextDueMs: 0 };
    return burials.length === 0 ? taken : Promise.all(burials).then(() => taken);
  }

  #message(delivery: Delivery<B>): Message<T, R> {
    const codec = this.#codec;
    const traced = codec.unwrap?.(delivery.body);
    const body = codec.decode(traced === undefined ? delivery.body : traced.body) as T;
    return new EngineMessage(delivery, body, this.#engine, codec, this.#options, traced?.trace);
  }

  async #buryUnreadable(delivery: Delivery<B>, error: unknown): Promise<void> {
    const raw = this.#codec.text(delivery.body);
    const reason = { reason: "unreadable", error: errorText(error) };
    try {
      const letter = deadLetterOf(delivery, { raw }, undefined, reason, this.#clock.now());
      await this.#engine.bury(delivery, this.#codec.encode(letter));
      this.#log.warn(`message ${delivery.id} of "${this.#name}" is unreadable: buried`, { error });
    } catch (error) {
      this.#log.error(`message ${delivery.id} of "${this.#name}" could not be buried`, { error });
    }
  }
}
