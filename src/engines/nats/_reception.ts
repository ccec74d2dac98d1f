import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Calls } from "./_calls.ts";
import { noResponders } from "./_calls.ts";
import { NatsDelivery } from "./_delivery.ts";
import { CONSUMER_NOT_FOUND, isMissing, JetStreamError, NO_RESPONDERS } from "./_errors.ts";
import type { Lane, Lanes } from "./_lanes.ts";
import type { Leases } from "./_leases.ts";
import type { Notes } from "./_notes.ts";
import type { NatsConnection, NatsMessage } from "./nats_connection.ts";
import type { Caught } from "./_sentry.ts";
import { BACK, type Verdicts } from "./_verdicts.ts";

/** What ends a request that the server has forgotten. */
const FORGOTTEN = 408.5;
const THE_END: NatsMessage = {
  subject: "",
  data: new Uint8Array(),
  headers: { code: FORGOTTEN, description: "" },
};

/** A server's word that nothing is there, or nothing more. */
const NOTHING_THERE: readonly number[] = [404, 408, FORGOTTEN];

/** A request that gets no answer for so long is looked after. */
const SILENCE_MS = 150;

/**
 * How long a request waits when nothing is there. It is not to wait, but a server that has no message left
 * for it, because somebody else was quicker, would have it wait for ever; and it confirms what is sent a
 * moment before it hands it out. A request is never taken back: what is on its way to it would be lost for
 * a while, and the server may confuse it with what it delivers next.
 */
const LOOK_MS = 50;

/** What was delivered longer ago may be somebody else's by now, and is left alone. */
const STILL_OURS_MS = 8_000;

/** What others have taken is forgotten. */
const MOST_SENT_ROUND = 10_000;

/** A delayed message is not sent round again for less. */
const NEARLY_DUE_MS = 20;

/** How long the difference between two clocks is relied upon. */
const IN_STEP_MS = 600_000;

/** What a reception works with. */
export interface ReceptionOptions {
  readonly mailbox: string;
  readonly connection: NatsConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly calls: Calls;
  readonly lanes: Lanes;
  readonly verdicts: Verdicts;
  readonly notes: Notes;
  readonly leases: Leases;
  /** Where to ask for messages. */
  readonly subject: () => string;
  /** Has the server look through all requests for messages; rejects when the consumer is gone. */
  readonly sweep: () => Promise<unknown>;
}

/** Messages that were delivered, and when at the earliest. */
export interface Received {
  readonly deliveries: readonly NatsDelivery[];
  readonly deliveredAt: number;
}

/** The way from the server's messages to deliveries. */
export class Reception {
  readonly #options: ReceptionOptions;
  /** The server's clock minus ours, and when that was found out. */
  #step: { readonly ms: number; readonly at: number } | undefined;

  /** When delayed messages were stored, by their numbers. */
  readonly #sentRound = new Map<NatsDelivery["seq"], NatsDelivery["storedAt"]>();

  constructor(options: ReceptionOptions) {
    this.#options = options;
  }

  /** Takes what the sentry has caught, or what is there, at most `max`. */
  async receive(max: number, take: (max: number) => readonly Caught[]): Promise<Received> {
    for (;;) {
      let deliveredAt = this.#options.clock.monotonic();
      const messages: NatsMessage[] = [];
      const takeCaught = () => {
        for (const caught of take(max - messages.length)) {
          deliveredAt = Math.min(deliveredAt, caught.deliveredAt);
          messages.push(caught.message);
        }
      };
      takeCaught();
      if (messages.length === 0) await this.#fetch(max, messages);
      if (messages.length === 0) takeCaught(); // it may have been caught meanwhile
      const deliveries = messages.map((message) => new NatsDelivery(message));
      const ready = await this.#sift(deliveries);
      if (ready.length > 0 || deliveries.length === 0) return { deliveries: ready, deliveredAt };
    }
  }

  /** Gives back what nobody gets, in its own time, without spending an attempt. */
  async giveBack(messages: readonly NatsMessage[]): Promise<void> {
    const deliveries = messages.map((message) => new NatsDelivery(message));
    await this.#giveBack(deliveries.map((delivery) => ({ delivery, known: false })));
  }

  async #giveBack(
    items: readonly { readonly delivery: NatsDelivery; readonly known: boolean }[],
  ): Promise<void> {
    const { calls, log, verdicts, mailbox } = this.#options;
    const what = `give back ("${mailbox}")`;
    const giveBack = async () => {
      const deliveries = items.map(({ delivery }) => delivery);
      await this.#readNotes(what, items.filter(({ known }) => !known).map((it) => it.delivery));
      // The first delivery of a delayed message does not count anyway.
      const counts = (it: NatsDelivery) =>
        it.delayMs === 0 || it.rawCount > 1 || this.#wasSentRound(it);
      await this.#noteFree(what, deliveries.filter(counts));
      await verdicts.confirm(what, deliveries, () => BACK);
    };
    try {
      await calls.background(giveBack());
    } catch (error) {
      log.debug(`could not give back to "${mailbox}"; the messages come back later`, { error });
    }
  }

  /** Asks for what is there, at most `max`. */
  async #fetch(max: number, messages: NatsMessage[]): Promise<void> {
    const { mailbox, connection, clock, calls, lanes, subject } = this.#options;
    const what = `receive ("${mailbox}")`;
    const request = JSON.stringify({ batch: max, no_wait: true, expires: LOOK_MS * 1_000_000 });
    const askedAt = clock.monotonic();
    const lane = lanes.borrow();
    let end: NatsMessage["headers"];
    let over = false;
    let cancel: Cancel | undefined;
    try {
      await calls.run(what, (_, hear) => {
        lane.hear = hear;
        connection.publish(subject(), request, { reply: lane.inbox });
        cancel = this.#lookAfter(lane, () => messages.length);
      }, {
        onAnswer(message) {
          if (codeOf(message) > 0) end = message.headers;
          else messages.push(message);
          return over = end !== undefined || messages.length === max;
        },
        onLate: (message) => {
          if (codeOf(message) > 0) return;
          if (clock.monotonic() - askedAt < STILL_OURS_MS) this.giveBack([message]);
        },
        isEnough: () => messages.length > 0,
      });
    } catch (error) {
      if (messages.length === 0) throw error;
    } finally {
      cancel?.();
      if (over && end?.code !== FORGOTTEN) lanes.giveBack(lane);
      else lanes.retire(lane);
    }
    if (end === undefined || messages.length > 0 || NOTHING_THERE.includes(end.code)) return;
    if (end.code === NO_RESPONDERS) throw noResponders(what);
    if (/consumer deleted/i.test(end.description)) {
      throw new JetStreamError(what, CONSUMER_NOT_FOUND, "consumer not found");
    }
    throw new JetStreamError(what, end.code, end.description);
  }

  /**
   * At times a server forgets a request, as is known when it answers a later question before it. And it
   * answers no request to a consumer that is gone.
   */
  #lookAfter(lane: Lane, count: () => number): Cancel {
    const { clock, log, calls, sweep } = this.#options;
    let canceled = false;
    let cancel: Cancel;
    const wait = () => {
      const before = count();
      cancel = clock.schedule(SILENCE_MS, () => {
        calls.background(sweep()).then(() => {
          if (canceled) return;
          if (count() > before) return wait();
          lane.hear(THE_END);
          lane.hear = (message) => codeOf(message) > 0 || void this.giveBack([message]);
        }).catch((error) => {
          log.debug("could not look after a request", { error });
          if (canceled || !isMissing(error)) return;
          lane.hear({ ...THE_END, headers: { code: error.code, description: error.text } });
        });
      });
    };
    wait();
    return () => {
      canceled = true;
      cancel();
    };
  }

  /** Tells what is to be handed over. Messages that are not due go back until they are. */
  async #sift(deliveries: readonly NatsDelivery[]): Promise<readonly NatsDelivery[]> {
    const repeated = deliveries.filter(({ rawCount }) => rawCount > 1);
    const delayed = deliveries.filter(({ delayMs }) => delayMs > 0);
    if (repeated.length === 0 && delayed.length === 0) return deliveries;
    const what = `receive ("${this.#options.mailbox}")`;
    let known = false;
    try {
      await this.#readNotes(what, repeated);
      known = true;
      const early = delayed.length === 0 ? new Set() : await this.#sendRound(what, delayed);
      return deliveries.filter((delivery) => !early.has(delivery));
    } catch (error) {
      this.#giveBack(deliveries.map((delivery) => ({ delivery, known })));
      throw error;
    }
  }

  /**
   * Sends delayed messages round until they are due. The first delivery is always such a round: it is
   * known not to count, without a note.
   */
  async #sendRound(
    what: string,
    delayed: readonly NatsDelivery[],
  ): Promise<ReadonlySet<NatsDelivery>> {
    const now = await this.#serverTime(what);
    const leftMs = ({ enqueuedAt, delayMs }: NatsDelivery) => enqueuedAt + 1 + delayMs - now;
    const early = delayed.filter((it) => it.rawCount === 1 || leftMs(it) > NEARLY_DUE_MS);
    // At times the server delivers again what it calls the first delivery: that one counts.
    const again = early.filter((it) => it.rawCount > 1 || this.#wasSentRound(it));
    this.#remember(delayed, early);
    await this.#noteFree(what, again);
    await this.#options.leases.giveBackIn(what, early, leftMs);
    return new Set(early);
  }

  /** Keeps in mind what was sent round from here and has not come back. */
  #remember(delayed: readonly NatsDelivery[], early: readonly NatsDelivery[]): void {
    for (const { seq } of delayed) this.#sentRound.delete(seq);
    if (this.#sentRound.size > MOST_SENT_ROUND) this.#sentRound.clear();
    for (const { seq, storedAt } of early) this.#sentRound.set(seq, storedAt);
  }

  #wasSentRound({ seq, storedAt }: NatsDelivery): boolean {
    return this.#sentRound.get(seq) === storedAt;
  }

  async #readNotes(what: string, deliveries: readonly NatsDelivery[]): Promise<void> {
    await Promise.all(deliveries.map(async (delivery) => {
      if (delivery.rawCount > 1) delivery.note = await this.#options.notes.read(what, delivery);
    }));
  }

  async #noteFree(what: string, deliveries: readonly NatsDelivery[]): Promise<void> {
    for (const delivery of deliveries) {
      delivery.note = { ...delivery.note, free: delivery.note.free + 1 };
    }
    await this.#options.notes.write(what, deliveries);
  }

  async #serverTime(what: string): Promise<number> {
    const { clock, notes } = this.#options;
    if (this.#step === undefined || clock.monotonic() - this.#step.at > IN_STEP_MS) {
      const time = await notes.serverTime(what);
      this.#step = { ms: time - clock.monotonic(), at: clock.monotonic() };
    }
    return this.#step.ms + clock.monotonic();
  }
}

/** A server's own messages have a code. */
function codeOf({ headers }: NatsMessage): number {
  return headers?.code ?? 0;
}
