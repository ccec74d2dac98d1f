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
import { namesOf } from "./_names.ts";
import type { Note } from "./_notes.ts";
import { fullError } from "./_outbox.ts";
import { peek, type Peeked } from "./_peek.ts";
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
  #dead: NatsEngine | undefined;

  constructor(name: string, backend: Backend, maxSize: number | undefined) {
    namesOf(name); // refuses one that is too long
    this.#name = name;
    this.#backend = backend;
    this.#maxSize = maxSize;
  }

  /** Finds what is on the server, or makes it. */
  async greet(): Promise<void> {
    await this.#work.site.open();
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    if (entries.length > MAX_PUSH) {
      throw new InvalidParameterError(
        `Cannot send ${entries.length} messages to "${this.#name}" in one step: at most ${MAX_PUSH}, ` +
          "send them in several",
      );
    }
    const room = this.#maxSize ?? Infinity;
    // Many are refused before the first of them is stored, where that is possible.
    if (room === 0 || (entries.length > 1 && room !== Infinity)) {
      const count = await this.count();
      if (count + entries.length > room) {
        throw fullError(this.#name, count, room, entries.length);
      }
    }
    const { site, outbox } = this.#work;
    return await site.use(() => outbox.send(entries));
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    const { leases, reception, sentry, site, strays } = this.#work;
    const deliveries = await site.use(async ({ ackWaitMs }) => {
      strays.start();
      await leases.giveBackEnded();
      const received = await reception.receive(max, (most) => sentry.take(most));
      leases.begin(received.deliveries, received.deliveredAt, visibilityMs, ackWaitMs);
      return received.deliveries;
    });
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
    return await this.#whereHeld("extend", deliveries, (what, held) => {
      return this.#work.leases.extend(what, held, visibilityMs);
    });
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
    let gone = false;
    const [held] = await this.#whereHeld("bury", [delivery], async (what, [held]) => {
      if (held === undefined) return;
      const { id, replyTo, seq, storedAt } = held;
      const { leases, verdicts, notes } = this.#work;
      await leases.confirm(what, held);
      const origin = `${seq}-${storedAt}`;
      await this.#deadEngine().#bringLetter({ id, replyTo, body: letter, delayMs: 0 }, origin);
      if (!leases.holds(held)) return;
      await verdicts.confirm(what, [held], () => DONE);
      gone = true;
      leases.end(held);
      notes.forget([held]);
    });
    return held === true && gone;
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const [saved = false] = await this.#whereHeld("checkpoint", [delivery], async (what, held) => {
      for (const each of held) await this.#work.leases.confirm(what, each);
      await this.#note(what, held, () => ({ progress }));
    });
    return saved;
  }

  async peek(max: number): Promise<readonly Peeked[]> {
    return await this.#work.site.use(() => peek(this.#what("peek"), max, this.#work));
  }

  async count(): Promise<number> {
    const { site, jetStream, names } = this.#work;
    const { state } = await site.use(() => jetStream.stream(this.#what("count"), names.stream));
    return state.messages;
  }

  async purge(): Promise<number> {
    const { site, jetStream, leases, names } = this.#work;
    const what = this.#what("purge");
    const purged = await site.use(() => jetStream.purge(what, names.stream));
    leases.forget();
    await site.use(() => jetStream.purge(what, names.notes));
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
    const { site, outbox } = this.#work;
    await site.use(() => outbox.sendLetter(letter, origin));
  }

  #what(what: string): string {
    return `${what} ("${this.#name}")`;
  }

  get #work(): Workplace {
    return this.#workplace ??= workplaceOf(this.#name, this.#backend, this.#maxSize, {
      isWanted: () => this.#listeners.size > 0,
      wake: () => this.#listeners.forEach((listener) => listener()),
    });
  }

  async #note(what: string, held: readonly NatsDelivery[], change: Change): Promise<void> {
    const noted = held.map(({ consumer, seq, storedAt, note }) => {
      return { consumer, seq, storedAt, note: { ...note, ...change(note) } };
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
  #settle(
    name: string,
    deliveries: readonly Delivery<string>[],
    settle: (what: string, held: readonly NatsDelivery[]) => Promise<void>,
  ): Promise<boolean[]> {
    return this.#whereHeld(name, deliveries, async (what, held) => {
      for (const delivery of held) this.#work.leases.end(delivery);
      await settle(what, held);
    });
  }

  /** Does something to those that still have a say, and tells for each whether it has. */
  async #whereHeld(
    name: string,
    deliveries: readonly Delivery<string>[],
    act: (what: string, held: readonly NatsDelivery[]) => Promise<void>,
  ): Promise<boolean[]> {
    const { calls, leases, site } = this.#work;
    const what = this.#what(name);
    calls.check(what);
    const own = deliveries as readonly NatsDelivery[];
    const good = own.map((it) => it.consumer === site.consumer && leases.holds(it));
    const held = own.filter((_, i) => good[i]);
    try {
      await act(what, held);
      return good;
    } catch (error) {
      if (!await site.hasLost(held[0]?.consumer ?? "", error)) throw error;
      for (const delivery of held) leases.end(delivery);
      return own.map(() => false);
    }
  }
}

/** Shares the connection with its mailbox, which closes it. */
class DeadLetterEngine extends NatsEngine {
  override async close(): Promise<void> {
    await this.closeWorkplace();
  }
}
