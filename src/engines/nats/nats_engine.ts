import {
  type Delivery,
  type Engine,
  type Entry,
  FREE_RELEASES,
  type Maybe,
  type Pulled,
} from "../../mailbox/engine.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import type { Backend } from "./_backend.ts";
import type { NatsDelivery } from "./_delivery.ts";
import { JetStreamError, NO_RESPONDERS } from "./_errors.ts";
import { namesOf } from "./_names.ts";
import type { Note } from "./_notes.ts";
import { fullError } from "./_outbox.ts";
import { peek, type Peeked } from "./_peek.ts";
import { setUp, type Site } from "./_set_up.ts";
import { BACK, DONE } from "./_verdicts.ts";
import { type Workplace, workplaceOf } from "./_workplace.ts";

/** More at once could not be taken back in time. */
const MAX_PUSH = 10_000;

type Change = (note: Note) => Partial<Note>;

/** One queue on a server: a stream for messages, one for notes about them, and a consumer. */
export class NatsEngine implements Engine<string> {
  readonly capabilities: Capabilities = { ...FULL_CAPABILITIES, fencedAck: false, fifo: false };
  readonly label = "NATS";
  readonly #name: string;
  readonly #backend: Backend;
  readonly #maxSize: number | undefined;
  readonly #listeners = new Set<() => void>();
  #workplace: Workplace | undefined;
  #site: Promise<Site> | undefined;
  #dead: NatsEngine | undefined;

  constructor(name: string, backend: Backend, maxSize: number | undefined) {
    namesOf(name); // refuses one that is too long
    this.#name = name;
    this.#backend = backend;
    this.#maxSize = maxSize;
  }

  /** Finds what is on the server, or makes it. */
  async greet(): Promise<void> {
    await this.#open();
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    if (entries.length > MAX_PUSH) {
      throw new InvalidParameterError(
        `Cannot send ${entries.length} messages to "${this.#name}" in one step: at most ${MAX_PUSH}, ` +
          "send them in several",
      );
    }
    await this.#open();
    const room = this.#maxSize ?? Infinity;
    // Many are refused before the first of them is stored, where that is possible.
    if (room === 0 || (entries.length > 1 && room !== Infinity)) {
      const count = await this.count();
      if (count + entries.length > room) {
        throw fullError(this.#name, count, room, entries.length);
      }
    }
    return await this.#findingOut(this.#work.outbox.send(entries));
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    const { ackWaitMs } = await this.#open();
    const { leases, reception, sentry, strays } = this.#work;
    strays.start();
    await leases.giveBackEnded();
    const received = reception.receive(max, (most) => sentry.take(most));
    const { deliveries, deliveredAt } = await this.#findingOut(received);
    leases.begin(deliveries, deliveredAt, visibilityMs, ackWaitMs);
    if (deliveries.length === 0 && this.#listeners.size > 0) sentry.putUp();
    // Whatever becomes visible, and whenever, comes to the sentry.
    return { deliveries, nextDueMs: Infinity };
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("acknowledge", deliveries, async (what, held) => {
      const { verdicts, notes, leases } = this.#work;
      try {
        await verdicts.confirm(what, held, () => DONE);
      } catch (error) {
        for (const delivery of held) leases.resume(delivery); // to say it twice does no harm
        throw error;
      }
      notes.forget(held);
    });
  }

  async extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const { leases, calls } = this.#work;
    calls.check(this.#what("extend"));
    const good = (deliveries as readonly NatsDelivery[]).map((it) => leases.holds(it));
    const held = (deliveries as readonly NatsDelivery[]).filter((_, i) => good[i]);
    await leases.extend(this.#what("extend"), held, visibilityMs);
    return good;
  }

  retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    spendsAttempt: boolean,
  ): Promise<boolean[]> {
    return this.#settle("nack", deliveries, async (what, held) => {
      if (!spendsAttempt) await this.#noteFirst(what, held, ({ free }) => ({ free: free + 1 }));
      await this.#work.leases.giveBackIn(what, held, () => delayMs);
    });
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("release", deliveries, async (what, held) => {
      await this.#noteFirst(what, held, ({ free, releases }) => ({
        free: releases < FREE_RELEASES ? free + 1 : free,
        releases: releases + 1,
      }));
      await this.#work.verdicts.confirm(what, held, () => BACK);
    });
  }

  /** The letter comes first: a crash in between leaves both, and the next burial finds the letter there. */
  async bury(delivery: Delivery<string>, letter: string): Promise<boolean> {
    const { id, replyTo, seq, storedAt } = delivery as NatsDelivery;
    const { calls, leases, verdicts, notes } = this.#work;
    const what = this.#what("bury");
    calls.check(what);
    if (!leases.holds(delivery as NatsDelivery)) return false;
    await this.#deadEngine().#bringLetter(
      { id, replyTo, body: letter, delayMs: 0 },
      `${seq}-${storedAt}`,
    );
    if (!leases.holds(delivery as NatsDelivery)) return false;
    await verdicts.confirm(what, [delivery as NatsDelivery], () => DONE);
    leases.end(delivery as NatsDelivery);
    notes.forget([delivery as NatsDelivery]);
    return true;
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const { calls, leases } = this.#work;
    const what = this.#what("checkpoint");
    calls.check(what);
    if (!leases.holds(delivery as NatsDelivery)) return false;
    await this.#note(what, [delivery as NatsDelivery], () => ({ progress }));
    return true;
  }

  async peek(max: number): Promise<readonly Peeked[]> {
    await this.#open();
    return await this.#findingOut(peek(this.#what("peek"), max, this.#work));
  }

  async count(): Promise<number> {
    await this.#open();
    const { jetStream, names } = this.#work;
    const { state } = await this.#findingOut(jetStream.stream(this.#what("count"), names.stream));
    return state.messages;
  }

  async purge(): Promise<number> {
    await this.#open();
    const { jetStream, leases, names } = this.#work;
    const purged = await this.#findingOut(jetStream.purge(this.#what("purge"), names.stream));
    leases.forget();
    await jetStream.purge(this.#what("purge"), names.notes);
    return purged;
  }

  onWake(listener: () => void): () => Maybe<void> {
    const own = () => listener();
    this.#listeners.add(own);
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) return this.#workplace?.sentry.callOff();
    };
  }

  /** On the same connection, which this engine closes for both. */
  deadLetters(): NatsEngine {
    return this.#deadEngine();
  }

  async close(): Promise<void> {
    await this.closeWorkplace();
    await this.#dead?.closeWorkplace();
    await this.#backend.close();
  }

  /** Lets go of everything but the connection. */
  async closeWorkplace(): Promise<void> {
    await this.#workplace?.close();
  }

  #deadEngine(): NatsEngine {
    return this.#dead ??= new DeadLetterEngine(`${this.#name}.dead`, this.#backend, undefined);
  }

  async #bringLetter(letter: Omit<Entry<string>, "dedup">, origin: string): Promise<void> {
    await this.#open();
    await this.#findingOut(this.#work.outbox.sendLetter(letter, origin));
  }

  #what(what: string): string {
    return `${what} ("${this.#name}")`;
  }

  get #work(): Workplace {
    return this.#workplace ??= workplaceOf(this.#name, this.#backend, {
      isWanted: () => this.#listeners.size > 0,
      wake: () => this.#listeners.forEach((listener) => listener()),
    });
  }

  #open(): Promise<Site> {
    return this.#site ??= this.#setUp();
  }

  async #setUp(): Promise<Site> {
    const { names, jetStream } = this.#work;
    const { connection: { info }, options: { clock, replicas, callTimeoutMs } } = this.#backend;
    const options = {
      maxSize: this.#maxSize,
      replicas,
      clock,
      retryMs: callTimeoutMs,
      hasJetStream: info === undefined || info.jetstream === true,
    };
    try {
      return await setUp(this.#name, names, jetStream, options);
    } catch (error) {
      this.#site = undefined;
      throw error;
    }
  }

  /** Somebody may have deleted the stream: the next call finds out, and makes it again. */
  async #findingOut<T>(call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      if (error instanceof JetStreamError && error.code === NO_RESPONDERS) this.#site = undefined;
      throw error;
    }
  }

  async #note(what: string, held: readonly NatsDelivery[], change: Change): Promise<void> {
    const noted = held.map(({ seq, storedAt, note }) => {
      return { seq, storedAt, note: { ...note, ...change(note) } };
    });
    await this.#work.notes.write(what, noted);
    for (const [i, { note }] of noted.entries()) held[i]!.note = note;
  }

  /** Where this fails nothing has happened, and the deliveries go on. */
  async #noteFirst(what: string, held: readonly NatsDelivery[], change: Change): Promise<void> {
    try {
      await this.#note(what, held, change);
    } catch (error) {
      for (const delivery of held) this.#work.leases.resume(delivery);
      throw error;
    }
  }

  /** Settles those that still have a say, and tells for each whether it has. */
  async #settle(
    name: string,
    deliveries: readonly Delivery<string>[],
    settle: (what: string, held: readonly NatsDelivery[]) => Promise<void>,
  ): Promise<boolean[]> {
    const { calls, leases } = this.#work;
    const what = this.#what(name);
    calls.check(what);
    const own = deliveries as readonly NatsDelivery[];
    const good = own.map((delivery) => leases.holds(delivery));
    const held = own.filter((_, i) => good[i]);
    for (const delivery of held) leases.end(delivery);
    await settle(what, held);
    return good;
  }
}

/** Shares the connection with its mailbox, which closes it. */
class DeadLetterEngine extends NatsEngine {
  override async close(): Promise<void> {
    await this.closeWorkplace();
  }
}
