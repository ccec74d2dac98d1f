import { settlesWithin } from "../../_promises.ts";
import { nextTurn } from "../../clock.ts";
import type { Received } from "../../mailbox/engine.ts";
import { LostCalls } from "../_kit/calls.ts";
import {
  ackArguments,
  type HandleResults,
  isSettled,
  markFailed,
  microseconds,
  receivedDeliveries,
  type RedisDelivery,
} from "./_delivery.ts";
import type { Owner } from "./_owner.ts";
import type { CallWindow, RedisLink, RunScript } from "./redis_link.ts";
import { RECEIVE, RELEASE_LOST } from "./scripts/receive.ts";
import type { Settler } from "./_settler.ts";
import type { MemoryWatch, StorageWatch } from "./_storage_watch.ts";
import type { Waiting } from "./_waiting.ts";

/** A larger acknowledgement goes alone: it would delay the reply of the receive. */
const MAX_CARRIED = 20;

/** How long a close waits for the release: a frozen server must not delay a shutdown. */
const CLOSE_TIMEOUT_MS = 1_000;

/** What a {@linkcode Receiver} needs of its engine. */
export interface ReceiverOptions {
  readonly link: RedisLink;
  /** In how many seconds the server deletes the queue when it is not used; 0 means never. */
  readonly expirySeconds: number;
  readonly memory: MemoryWatch;
  readonly storage: StorageWatch;
  /** Absent when owners are not detected. */
  readonly owner?: Owner | undefined;
  readonly waiting: Waiting;
  readonly run: RunScript;
  /** Acknowledges without a receive. */
  readonly settler: Settler;
}

/** One call of `acknowledge` that waits for its result. */
interface PendingAck {
  readonly deliveries: readonly RedisDelivery[];
  resolve(results: boolean[]): void;
  reject(error: unknown): void;
}

/** A receive that may have leased messages. The window is that of the ends of its leases. */
interface LostReceive extends CallWindow {
  readonly receiveId: string;
}

type Reply = Received<string> & {
  readonly acknowledged: HandleResults;
  readonly nowUs: number;
  /** Whether this process was registered as waiting. */
  readonly waited: boolean;
  /** True if a pause or a rate limit allowed no message. Then the registration stays as it was. */
  readonly isRefused: boolean;
};

/**
 * Receives messages.
 *
 * A receive carries the acknowledgements of its turn of the event loop. A worker that handles one message at
 * a time acknowledges it and asks for the next in the same turn; one call for both costs half as much.
 * Acknowledgements that find no receive by the end of the turn go alone.
 *
 * When the reply of a receive is lost, because the connection broke or the call timed out, its messages would
 * stay hidden until their visibility timeout passes. They are released as soon as the server answers again,
 * and repeatedly while such a receive may still reach the server.
 */
export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #lost: LostCalls<LostReceive>;
  readonly #idPrefix: string;
  #lastId = 0;
  /** Receives that run at the end of this turn. */
  #starting = 0;
  #pendingAcks: PendingAck[] = [];

  constructor(options: ReceiverOptions) {
    this.#options = options;
    const { owner, link: { options: { clock, callTimeoutMs, random } } } = options;
    // The script refuses later calls.
    this.#lost = new LostCalls(clock, callTimeoutMs, (receives) => this.#releaseLost(receives));
    this.#idPrefix = owner?.id ?? random.id().slice(0, 13);
  }

  /** Acknowledges with the next receive of this turn, or alone. Resolves with one result per delivery. */
  acknowledge(deliveries: readonly RedisDelivery[]): Promise<boolean[]> {
    if (deliveries.length > MAX_CARRIED) return this.#options.settler.acknowledge(deliveries);
    return new Promise((resolve, reject) => {
      this.#pendingAcks.push({ deliveries, resolve, reject });
      if (this.#pendingAcks.length === 1) void this.#acknowledgeAlone();
    });
  }

  /** Receives at the end of this turn, and acknowledges what is pending by then. */
  async receive(max: number, visibilityMs: number, waits: boolean): Promise<Received<string>> {
    if (this.#lost.nextLookMs === 0) await this.#lost.look();
    const { ending } = this.#options.waiting;
    if (ending !== undefined) await ending;
    this.#starting++;
    await nextTurn();
    this.#starting--;
    const acks = this.#pendingAcks.splice(0);
    try {
      const reply = await this.#call(max, visibilityMs, waits, acks.flatMap((it) => it.deliveries));
      const { acknowledged, nowUs } = reply;
      let first = 0;
      for (const { deliveries, resolve } of acks) {
        const isAcknowledged = (it: RedisDelivery, i: number) => {
          return isSettled("acknowledge", acknowledged, first + i, it, nowUs);
        };
        resolve(deliveries.map(isAcknowledged));
        first += deliveries.length;
      }
      return reply;
    } catch (error) {
      for (const { deliveries, reject } of acks) {
        markFailed("acknowledge", deliveries);
        reject(error);
      }
      throw error;
    }
  }

  /** Releases a last time. If it fails, the messages reappear when their visibility timeout passes. */
  async close(): Promise<void> {
    this.#lost.stop();
    if (this.#lost.nextLookMs === Infinity) return;
    const { clock } = this.#options.link.options;
    await settlesWithin(this.#lost.look(true), CLOSE_TIMEOUT_MS, clock);
  }

  /** Calls the server with a new receive id, which is kept when the call fails. */
  async #call(
    max: number,
    visibilityMs: number,
    waits: boolean,
    acks: readonly RedisDelivery[],
  ): Promise<Reply> {
    const { link, run, expirySeconds, waiting } = this.#options;
    const visibilityUs = microseconds(visibilityMs);
    const owner = waits ? waiting.ownerFor(visibilityMs) : "";
    const receiveId = `${this.#idPrefix}-${++this.#lastId}`;
    const { fromUs, untilUs } = link.window;
    try {
      const values = [max, visibilityUs, receiveId, expirySeconds, owner, ...ackArguments(acks)];
      const reply = await this.#read(
        await run("receive", RECEIVE, values),
        visibilityUs,
        receiveId,
      );
      if (owner !== "") {
        const { deliveries, waited, isRefused, nowUs } = reply;
        if (deliveries.length > 0 && !waited) await waiting.arrival(nowUs);
        if (!isRefused) waiting.onReceived(deliveries.length === 0, nowUs);
      }
      return reply;
    } catch (error) {
      if (owner !== "") waiting.onReceived(true, fromUs); // the receive may have registered this process
      // The estimate of the server's clock may have changed since: use both.
      const lateUs = link.window.untilUs;
      this.#lost.add({
        receiveId,
        fromUs: fromUs + visibilityUs,
        untilUs: Math.max(untilUs, lateUs) + visibilityUs,
      });
      throw error;
    }
  }

  async #read(reply: unknown[], visibilityUs: number, receiveId: string): Promise<Reply> {
    const { memory, storage, owner } = this.#options;
    const [
      nowUs,
      nextDueUs,
      notes,
      acknowledged,
      seqs = [],
      records = [],
      redelivered = [],
      waited,
    ] = reply as [
      number,
      number,
      number[],
      HandleResults,
      string[]?,
      string[]?,
      (string | null)[]?,
      number?,
    ];
    const [full, bodiless = 0, orphaned = 0, last, leased = seqs.length] = notes;
    memory.update(full === 1);
    const highest = Number(seqs.at(-1) ?? 0);
    const reporting = storage.note(nowUs, { bodiless, orphaned, last, highest });
    if (reporting !== undefined) await reporting;
    const found = { seqs, records, redelivered };
    const lookMs = leased > 0 && owner !== undefined ? owner.look() : Infinity;
    const dueMs = nextDueUs < 0 ? Infinity : nextDueUs / 1_000;
    return {
      deliveries: receivedDeliveries(found, receiveId, nowUs + visibilityUs),
      now: Math.floor(nowUs / 1_000),
      nextDueMs: Math.min(dueMs, this.#lost.nextLookMs, lookMs),
      acknowledged,
      nowUs,
      waited: waited === 1,
      isRefused: seqs.length === 0 && last === undefined,
    };
  }

  async #releaseLost(receives: readonly LostReceive[]): Promise<void> {
    const { run } = this.#options;
    for (const { receiveId, fromUs, untilUs } of receives) {
      const values = [receiveId, fromUs, untilUs];
      await run("release the messages of a lost receive", RELEASE_LOST, values);
    }
  }

  async #acknowledgeAlone(): Promise<void> {
    await nextTurn();
    if (this.#starting > 0) return; // a receive of this turn carries them
    const acks = this.#pendingAcks.splice(0);
    try {
      const deliveries = acks.flatMap((it) => it.deliveries);
      const results = await this.#options.settler.acknowledge(deliveries);
      for (const { deliveries, resolve } of acks) {
        resolve(results.splice(0, deliveries.length));
      }
    } catch (error) {
      for (const { reject } of acks) reject(error);
    }
  }
}
