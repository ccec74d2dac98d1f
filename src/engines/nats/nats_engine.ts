import {
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  FREE_RELEASES,
  type Maybe,
  type Received,
  type StoredMessage,
} from "../../mailbox/engine.ts";
import { fullError, InvalidParameterError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import { ACK, NAK } from "./_calls.ts";
import type { NatsDelivery } from "./_delivery.ts";
import { Inspection } from "./_inspection.ts";
import { Leases } from "./_leases.ts";
import { LongPoll } from "./_long_poll.ts";
import { Notes } from "./_notes.ts";
import { OrphanedMessages } from "./_orphaned_messages.ts";
import { namesOf, Queue } from "./_queue.ts";
import { Receiver } from "./_receiver.ts";
import { Sender } from "./_sender.ts";
import { Streams } from "./_streams.ts";
import type { SharedConnection } from "./nats_connection.ts";

const MAX_BATCH = 10_000; // more messages could not be removed in time after a failed send

/** A queue on a NATS server: a stream of messages, a stream of notes, and a consumer. */
export class NatsEngine implements Engine<string> {
  readonly capabilities: Capabilities = {
    ...FULL_CAPABILITIES,
    fencedAck: false, // the server accepts an ack from an expired lease
    leaseExpiries: false, // the server only counts deliveries
    fifo: false, // released messages return in the order of their release
    exactStats: false, // the server does not tell a delayed message from one in flight
    keys: false, // a consumer delivers in the order of its stream
    priorities: false, // the same
    dedupWindow: false, // the server has one window for all messages of a stream
    lookup: false, // the server does not tell in which state a message is
    pause: false, // servers before 2.11 cannot pause a consumer
    rateLimit: false, // the limit of a consumer is in bits per second
    requests: false, // replies to a process that has ended would create its streams again
    transactions: false,
    ownerDetection: false, // a lease does not tell which connection has it
  };
  readonly label = "NATS";
  readonly #name: string;
  readonly #connection: SharedConnection;
  readonly #maxSize: number | undefined;
  #created: QueueParts | undefined;
  #dead: NatsEngine | undefined;

  constructor(name: string, connection: SharedConnection, maxSize: number | undefined) {
    namesOf(name); // throws when the name is too long
    this.#name = name;
    this.#connection = connection;
    this.#maxSize = maxSize;
  }

  /** Finds or creates the streams and the consumer. The connection must be open. */
  async open(): Promise<void> {
    await this.#queue.streams.ensure();
  }

  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    if (entries.length > MAX_BATCH) {
      throw new InvalidParameterError(
        `Cannot send ${entries.length} messages to "${this.#name}" in one batch: the limit is ${MAX_BATCH}; ` +
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

  async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    const { leases, receiver, longPoll, streams, orphans, listeners, notes } = this.#queue;
    const deliveries = await streams.use(async ({ ackWaitMs }) => {
      orphans.start();
      await leases.releaseExpired();
      const received = await receiver.receive(max, longPoll);
      leases.begin(received.deliveries, received.deliveredAt, visibilityMs, ackWaitMs);
      return received.deliveries;
    });
    if (deliveries.length === 0 && listeners.size > 0) longPoll.start();
    // The long poll reports every message that becomes visible.
    return { deliveries, nextDueMs: Infinity, now: await notes.timeOfReceive(deliveries) };
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("acknowledge", deliveries, async (what, active) => {
      const { calls, notes } = this.#queue;
      // A second ack does no harm, so a failed one can be repeated.
      await this.#resumeOnError(active, calls.settle(what, active, () => ACK));
      notes.delete(active);
    });
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return this.#withActiveLease("extend", deliveries, (what, active) => {
      return this.#queue.leases.extend(what, active, visibilityMs);
    });
  }

  nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    return this.#settle("nack", deliveries, async (what, active) => {
      const { notes } = this.#queue;
      if (!countsAttempt) await this.#resumeOnError(active, notes.uncount(what, active));
      await this.#queue.leases.nackAfter(what, active, () => delayMs);
    });
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("release", deliveries, async (what, active) => {
      const { calls, notes } = this.#queue;
      const noted = notes.change(what, active, ({ uncounted, releases }) => ({
        uncounted: releases < FREE_RELEASES ? uncounted + 1 : uncounted,
        releases: releases + 1,
      }));
      await this.#resumeOnError(active, noted);
      await calls.settle(what, active, () => NAK);
    });
  }

  /** Stores the dead letter first. After a crash in between, the next attempt finds it stored. */
  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    let removed = false;
    await this.#withActiveLease("dead-letter", [delivery], async (what, [active]) => {
      if (active === undefined) return;
      const { leases, calls, notes } = this.#queue;
      await leases.confirm(what, active);
      const { streams, sender } = this.deadLetters().#queue;
      const token = `l-${active.seq}-${active.storedAt}`;
      await streams.use(() => sender.sendOnce("dead-letter", letter, token));
      if (!leases.isActive(active)) return;
      await calls.settle(what, [active], () => ACK);
      removed = true;
      leases.end(active);
      notes.delete([active]);
    });
    return removed;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const [saved = false] = await this.#withActiveLease(
      "checkpoint",
      [delivery],
      async (what, active) => {
        const { leases, notes } = this.#queue;
        for (const each of active) await leases.confirm(what, each);
        await notes.change(what, active, () => ({ checkpoint, releases: 0 }));
      },
    );
    return saved;
  }

  peek(max: number, skip = 0): Promise<readonly StoredMessage<string>[]> {
    return this.#queue.inspection.peek(max, skip);
  }

  count(): Promise<number> {
    return this.#queue.inspection.count();
  }

  stats(): Promise<EngineStats> {
    return this.#queue.inspection.stats();
  }

  async purge(): Promise<number> {
    const { streams, jetStream, leases, names } = this.#queue;
    const what = this.#queue.what("purge");
    const purged = await streams.use(() => jetStream.purge(what, names.stream));
    leases.clear();
    await streams.use(() => jetStream.purge(what, names.notes));
    return purged;
  }

  onWake(listener: () => void): () => Maybe<void> {
    const { listeners, longPoll } = this.#queue;
    const own = () => listener();
    listeners.add(own);
    return () => {
      listeners.delete(own);
      if (listeners.size === 0) return longPoll.stop();
    };
  }

  /** Shares the connection; this engine closes it for both. */
  deadLetters(): NatsEngine {
    return this.#dead ??= new NatsEngine(`${this.#name}.dead`, this.#connection, undefined);
  }

  async close(): Promise<void> {
    const engines = this.#dead === undefined ? [this] : [this, this.#dead];
    await Promise.all(engines.map((engine) => engine.#created?.close()));
    await this.#connection.close();
  }

  get #queue(): QueueParts {
    return this.#created ??= new QueueParts(this.#name, this.#connection, this.#maxSize);
  }

  /** Continues the leases when `call` fails, so that the caller can try again. */
  async #resumeOnError(active: readonly NatsDelivery[], call: Promise<void>): Promise<void> {
    try {
      await call;
    } catch (error) {
      for (const delivery of active) this.#queue.leases.resume(delivery);
      throw error;
    }
  }

  /** Settles the deliveries with an active lease. Returns for each whether it had one. */
  #settle(
    verb: string,
    deliveries: readonly Delivery<string>[],
    settle: (what: string, active: readonly NatsDelivery[]) => Promise<void>,
  ): Promise<boolean[]> {
    return this.#withActiveLease(verb, deliveries, async (what, active) => {
      for (const delivery of active) this.#queue.leases.end(delivery);
      await settle(what, active);
    });
  }

  /** Runs `act` on the deliveries with an active lease. Returns for each whether it had one. */
  async #withActiveLease(
    verb: string,
    deliveries: readonly Delivery<string>[],
    act: (what: string, active: readonly NatsDelivery[]) => Promise<void>,
  ): Promise<boolean[]> {
    const { calls, leases, streams } = this.#queue;
    const what = this.#queue.what(verb);
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

/** A queue and the parts of the engine that serve it. */
class QueueParts extends Queue {
  readonly streams: Streams;
  readonly notes: Notes;
  readonly leases: Leases = new Leases(this);
  readonly sender: Sender = new Sender(this);
  readonly receiver: Receiver;
  readonly longPoll: LongPoll;
  readonly orphans: OrphanedMessages;
  readonly inspection: Inspection;
  readonly #stopListening: () => void;

  constructor(name: string, connection: SharedConnection, maxSize: number | undefined) {
    super(name, connection);
    this.streams = new Streams(this, maxSize, () => {
      this.leases.clear();
      this.longPoll.discard();
      this.orphans.stop();
    });
    this.notes = new Notes(this, this.streams);
    this.receiver = new Receiver(this, this.streams, this.notes, this.leases);
    this.longPoll = new LongPoll(this, this.streams, (it) => this.receiver.release(it));
    this.orphans = new OrphanedMessages(this, this.streams, this.sender);
    this.inspection = new Inspection(this, this.streams, this.notes, this.leases);
    this.#stopListening = connection.onChange((connected) => {
      this.calls.connected = connected;
      if (connected) this.longPoll.restart();
      else this.orphans.stop();
    });
  }

  /** Releases buffered messages and waits briefly for open calls. */
  async close(): Promise<void> {
    this.orphans.stop();
    await this.longPoll.close();
    await this.calls.close();
    this.receiver.close();
    this.leases.close();
    this.#stopListening();
  }
}
