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
import { fullError } from "./_sender.ts";
import { peek, type Peeked } from "./_peek.ts";
import { ACK, NAK } from "./_acks.ts";
import { createQueue, type Queue } from "./_queue.ts";

/** More messages could not be removed in time after a failed send. */
const MAX_PUSH = 10_000;

type NoteChange = (note: Note) => Partial<Note>;

/** A queue on a NATS server: a stream of messages, a stream of notes, and a consumer. */
export class NatsEngine implements Engine<string> {
  readonly capabilities: Capabilities = { ...FULL_CAPABILITIES, fencedAck: false, fifo: false };
  readonly label = "NATS";
  readonly #name: string;
  readonly #backend: Backend;
  readonly #maxSize: number | undefined;
  readonly #listeners = new Set<() => void>();
  #created: Queue | undefined;
  #dead: NatsEngine | undefined;

  constructor(name: string, backend: Backend, maxSize: number | undefined) {
    namesOf(name); // throws when the name is too long
    this.#name = name;
    this.#backend = backend;
    this.#maxSize = maxSize;
  }

  /** Finds or creates the streams and the consumer. */
  async open(): Promise<void> {
    await this.#queue.streams.ensure();
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    if (entries.length > MAX_PUSH) {
      throw new InvalidParameterError(
        `Cannot send ${entries.length} messages to "${this.#name}" in one batch: the limit is ${MAX_PUSH}; ` +
          "split the batch",
      );
    }
    const limit = this.#maxSize ?? Infinity;
    // Refuse the whole batch before the first message is stored, if possible.
    if (limit === 0 || (entries.length > 1 && limit !== Infinity)) {
      const count = await this.count();
      if (count + entries.length > limit) {
        throw fullError(this.#name, count, limit, entries.length);
      }
    }
    const { streams, sender } = this.#queue;
    return await streams.use(() => sender.send(entries));
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    const { leases, receiver, longPoll, streams, orphans } = this.#queue;
    const deliveries = await streams.use(async ({ ackWaitMs }) => {
      orphans.start();
      await leases.releaseExpired();
      const received = await receiver.receive(max, (most) => longPoll.take(most));
      leases.begin(received.deliveries, received.deliveredAt, visibilityMs, ackWaitMs);
      return received.deliveries;
    });
    if (deliveries.length === 0 && this.#listeners.size > 0) longPoll.start();
    // The long poll reports every message that becomes visible.
    return { deliveries, nextDueMs: Infinity };
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("acknowledge", deliveries, async (what, active) => {
      const { acks, notes, leases } = this.#queue;
      try {
        await acks.publishConfirmed(what, active, () => ACK);
      } catch (error) {
        for (const delivery of active) leases.resume(delivery); // a second ack does no harm
        throw error;
      }
      notes.delete(active);
    });
  }

  async extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return await this.#withActiveLease("extend", deliveries, (what, active) => {
      return this.#queue.leases.extend(what, active, visibilityMs);
    });
  }

  retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    return this.#settle("nack", deliveries, async (what, active) => {
      if (!countsAttempt) {
        await this.#writeNotesFirst(
          what,
          active,
          ({ uncounted }) => ({ uncounted: uncounted + 1 }),
        );
      }
      await this.#queue.leases.nackAfter(what, active, () => delayMs);
    });
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("release", deliveries, async (what, active) => {
      await this.#writeNotesFirst(what, active, ({ uncounted, releases }) => ({
        uncounted: releases < FREE_RELEASES ? uncounted + 1 : uncounted,
        releases: releases + 1,
      }));
      await this.#queue.acks.publishConfirmed(what, active, () => NAK);
    });
  }

  /** Stores the dead letter first. After a crash in between, the next attempt finds it stored. */
  async bury(delivery: Delivery<string>, deadLetter: string): Promise<boolean> {
    let gone = false;
    const [active] = await this.#withActiveLease("bury", [delivery], async (what, [active]) => {
      if (active === undefined) return;
      const { id, replyTo, seq, storedAt } = active;
      const { leases, acks, notes } = this.#queue;
      await leases.confirm(what, active);
      const origin = `${seq}-${storedAt}`;
      await this.#deadEngine().#storeDeadLetter(
        { id, replyTo, body: deadLetter, delayMs: 0 },
        origin,
      );
      if (!leases.isActive(active)) return;
      await acks.publishConfirmed(what, [active], () => ACK);
      gone = true;
      leases.end(active);
      notes.delete([active]);
    });
    return active === true && gone;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const [saved = false] = await this.#withActiveLease(
      "checkpoint",
      [delivery],
      async (what, active) => {
        for (const each of active) await this.#queue.leases.confirm(what, each);
        await this.#writeNotes(what, active, () => ({ checkpoint }));
      },
    );
    return saved;
  }

  async peek(max: number): Promise<readonly Peeked[]> {
    return await this.#queue.streams.use(() => peek(this.#what("peek"), max, this.#queue));
  }

  async count(): Promise<number> {
    const { streams, jetStream, names } = this.#queue;
    const { state } = await streams.use(() => jetStream.stream(this.#what("count"), names.stream));
    return state.messages;
  }

  async purge(): Promise<number> {
    const { streams, jetStream, leases, names } = this.#queue;
    const what = this.#what("purge");
    const purged = await streams.use(() => jetStream.purge(what, names.stream));
    leases.clear();
    await streams.use(() => jetStream.purge(what, names.notes));
    return purged;
  }

  onWake(listener: () => void): () => Maybe<void> {
    const own = () => listener();
    this.#listeners.add(own);
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) return this.#created?.longPoll.stop();
    };
  }

  /** Shares the connection; this engine closes it for both. */
  deadLetters(): NatsEngine {
    return this.#deadEngine();
  }

  async close(): Promise<void> {
    await this.closeQueue();
    await this.#dead?.closeQueue();
    await this.#backend.close();
  }

  /** Closes everything but the connection. */
  async closeQueue(): Promise<void> {
    await this.#created?.close();
  }

  #deadEngine(): NatsEngine {
    return this.#dead ??= new DeadLetterEngine(`${this.#name}.dead`, this.#backend, undefined);
  }

  async #storeDeadLetter(deadLetter: Omit<Entry<string>, "dedup">, origin: string): Promise<void> {
    const { streams, sender } = this.#queue;
    await streams.use(() => sender.sendDeadLetter(deadLetter, origin));
  }

  #what(what: string): string {
    return `${what} ("${this.#name}")`;
  }

  get #queue(): Queue {
    return this.#created ??= createQueue(this.#name, this.#backend, this.#maxSize, {
      hasListeners: () => this.#listeners.size > 0,
      wake: () => this.#listeners.forEach((listener) => listener()),
    });
  }

  async #writeNotes(
    what: string,
    active: readonly NatsDelivery[],
    change: NoteChange,
  ): Promise<void> {
    const noted = active.map(({ consumer, seq, storedAt, note }) => {
      return { consumer, seq, storedAt, note: { ...note, ...change(note) } };
    });
    await this.#queue.notes.write(what, noted);
    for (const [i, { note }] of noted.entries()) active[i]!.note = note;
  }

  /** Writes notes before a settlement. If this fails, the leases continue. */
  async #writeNotesFirst(
    what: string,
    active: readonly NatsDelivery[],
    change: NoteChange,
  ): Promise<void> {
    try {
      await this.#writeNotes(what, active, change);
    } catch (error) {
      for (const delivery of active) this.#queue.leases.resume(delivery);
      throw error;
    }
  }

  /** Settles the deliveries with an active lease. Returns for each whether it had one. */
  #settle(
    name: string,
    deliveries: readonly Delivery<string>[],
    settle: (what: string, active: readonly NatsDelivery[]) => Promise<void>,
  ): Promise<boolean[]> {
    return this.#withActiveLease(name, deliveries, async (what, active) => {
      for (const delivery of active) this.#queue.leases.end(delivery);
      await settle(what, active);
    });
  }

  /** Runs `act` on the deliveries with an active lease. Returns for each whether it had one. */
  async #withActiveLease(
    name: string,
    deliveries: readonly Delivery<string>[],
    act: (what: string, active: readonly NatsDelivery[]) => Promise<void>,
  ): Promise<boolean[]> {
    const { calls, leases, streams } = this.#queue;
    const what = this.#what(name);
    calls.check(what);
    const own = deliveries as readonly NatsDelivery[];
    const isActive = own.map((it) => it.consumer === streams.consumer && leases.isActive(it));
    const active = own.filter((_, i) => isActive[i]);
    try {
      await act(what, active);
      return isActive;
    } catch (error) {
      if (!await streams.hasLostConsumer(active[0]?.consumer ?? "", error)) throw error;
      for (const delivery of active) leases.end(delivery);
      return own.map(() => false);
    }
  }
}

/** Shares the connection of its mailbox, which closes it. */
class DeadLetterEngine extends NatsEngine {
  override async close(): Promise<void> {
    await this.closeQueue();
  }
}
