import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { Received } from "../../mailbox/engine.ts";
import type { Random } from "../../random.ts";
import { LostCalls } from "../_kit/calls.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import type { Handovers } from "./_handovers.ts";
import type { Owners } from "./_owners.ts";
import { PostgresDelivery, type Row } from "./_settlements.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";

/** The due row is locked by another worker: the receiver retries after this time. */
const LOCKED_RETRY_MS = 5;

/** When the next message is due, and what has to be done before a receive. */
interface NextDue {
  readonly ms: number;
  /** True when a message is in flight, with any process. */
  readonly flying: boolean;
  /** True when the queue has a pause or a rate limit. */
  readonly controlled: boolean;
  /** True when messages have to join the lines of their keys, or keys have to be unblocked. */
  readonly joins: boolean;
}

/** Runs a statement. `onLate` gets the rows that arrive after the timeout. */
export type Call = (
  statement: keyof Statements,
  action: string,
  parameters: SqlParameter[],
  onLate?: (rows: readonly SqlRow[]) => void,
) => Promise<readonly SqlRow[]>;

/** What {@linkcode Receives} needs of its mailbox. */
interface ReceivesOptions {
  readonly callTimeoutMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly registers?: boolean | undefined;
}

/**
 * Receives the messages of one queue. Most receives are one statement. Only one that finds nothing looks for
 * messages that are due, and for keys that have to be unblocked, and tries again.
 */
export class Receives {
  readonly #queue: string;
  readonly #random: Random;
  readonly #log: Log;
  readonly #owners: Owners;
  readonly #registers: boolean;
  readonly #handovers: Handovers;
  readonly #call: Call;
  readonly #release: (deliveries: readonly PostgresDelivery[]) => Promise<unknown>;
  /** The nonces of receives that failed: the server may have run them. */
  readonly #lost: LostCalls<string>;
  /** True after the queue had a pause or a rate limit. Then the first statement looks at them. */
  #controlled = false;

  constructor(
    queue: string,
    options: ReceivesOptions,
    owners: Owners,
    handovers: Handovers,
    call: Call,
    release: (deliveries: readonly PostgresDelivery[]) => Promise<unknown>,
  ) {
    this.#queue = queue;
    this.#random = options.random;
    this.#log = options.log;
    this.#owners = owners;
    this.#registers = options.registers === true;
    this.#handovers = handovers;
    this.#call = call;
    this.#release = release;
    const { clock, callTimeoutMs } = options;
    this.#lost = new LostCalls(clock, callTimeoutMs, (nonces) => this.#releaseLost(nonces));
  }

  /** Leases visible messages, at most `max`. With `waits`, the next message may be handed over. */
  async receive(max: number, visibilityMs: number, waits: boolean): Promise<Received<string>> {
    if (this.#registers) {
      if (!this.#owners.isSettled) await this.#owners.register();
      this.#owners.look();
    }
    if (await this.#handovers.end() && waits) return { deliveries: [], nextDueMs: 0 };
    if (this.#lost.nextLookMs === 0) await this.#lost.look();
    let received = await this.#receiveReady(max, visibilityMs, false);
    if (received !== undefined) return received;
    let due = await this.#nextDue();
    if (due.controlled && !this.#controlled) {
      this.#controlled = true;
      return await this.receive(max, visibilityMs, waits);
    }
    if (due.ms <= 0 || due.joins) {
      if (due.ms <= 0) await this.#call("makeDueReady", "receive", [this.#queue]);
      if (due.joins) await this.#call("joinKeys", "receive", [this.#queue]);
      received = await this.#receiveReady(max, visibilityMs, true);
      if (received !== undefined) return received;
      due = await this.#nextDue();
      const ms = due.joins ? LOCKED_RETRY_MS : Math.max(LOCKED_RETRY_MS, due.ms);
      due = { ...due, ms };
    } else if (waits && !due.controlled) await this.#handovers.register(visibilityMs);
    const lookMs = due.flying && this.#registers ? this.#owners.nextLookMs : Infinity;
    return { deliveries: [], nextDueMs: Math.min(due.ms, this.#lost.nextLookMs, lookMs) };
  }

  /** Ends the timer that releases the messages of lost receives. */
  close(): void {
    this.#lost.stop();
  }

  /** Leases ready messages. Unless `ignoreDue` is set, it leases none while a hidden message is due. */
  async #receiveReady(
    max: number,
    visibilityMs: number,
    ignoreDue: boolean,
  ): Promise<Received<string> | undefined> {
    const nonce = this.#owners.receipt(this.#random);
    const parameters = [this.#queue, `${max}`, `${visibilityMs}`, nonce, `${ignoreDue}`];
    const statement = this.#controlled ? "receiveControlled" : "receive";
    try {
      const late = (rows: readonly SqlRow[]) => this.#releaseLate(deliveriesOf(rows, nonce));
      const rows = await this.#call(statement, "receive", parameters, late);
      const wait = rows[0]?.wait ?? null;
      this.#controlled &&= wait !== null;
      const deliveries = deliveriesOf(rows, nonce);
      if (deliveries.length === 0 && Number(wait) === 0) return undefined;
      const now = deliveries.length === 0 ? undefined : Math.floor(Number(rows[0]!.now));
      return { deliveries, nextDueMs: Math.min(Number(wait), this.#lost.nextLookMs), now };
    } catch (error) {
      this.#lost.add(nonce);
      throw error;
    }
  }

  async #releaseLate(deliveries: readonly PostgresDelivery[]): Promise<void> {
    if (deliveries.length === 0) return;
    try {
      await this.#release(deliveries);
    } catch (error) {
      this.#log.warn(
        "could not release late messages; they reappear when their visibility timeout passes",
        { mailbox: this.#queue, error },
      );
    }
  }

  async #releaseLost(nonces: readonly string[]): Promise<void> {
    const action = "release the messages of a lost receive";
    await this.#call("releaseLost", action, [this.#queue, arrayLiteral(nonces)]);
  }

  async #nextDue(): Promise<NextDue> {
    const [row] = await this.#call("nextDue", "receive", [this.#queue]);
    const { ms, flying, controlled, joins } = row!;
    return {
      ms: ms === null ? Infinity : Number(ms),
      flying: flying === true,
      controlled: controlled === true,
      joins: joins === true,
    };
  }
}

/** Returns the messages of a receive in the order of delivery: `returning` has none. */
function deliveriesOf(rows: readonly SqlRow[], nonce: string): PostgresDelivery[] {
  const found = rows.filter(({ number }) => number !== null) as unknown as readonly Row[];
  const sorted = found.toSorted((a, b) => {
    return Number(b.priority) - Number(a.priority) || Number(a.number) - Number(b.number);
  });
  return sorted.map((row) => new PostgresDelivery(row, nonce));
}
