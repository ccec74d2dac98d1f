import { type Mailbox, MAX_BATCH } from "../mailbox/mailbox.ts";
import type { Schedule } from "./schedule.ts";

/** The record of a schedule that was changed is kept this long: replicas with the old one may still run. */
const OLD_SCHEDULE_MS = 86_400_000;

/** How long a receive that deletes records keeps the others from being deleted. */
const CLEANING_MS = 10_000;

/** The last time that a date can have. */
const MAX_TIME = 8.64e15;

/** What the queue of records stores. */
interface StoredRecord {
  readonly name: string;
  readonly schedule: string;
  readonly timezone: string;
  /** The slot, or the first start, in milliseconds since the Unix epoch. */
  readonly at: number;
  /** True when `at` is the first start: no slot was sent yet. */
  readonly isStart?: true;
}

interface IdentifiedRecord extends StoredRecord {
  readonly id: string;
}

/**
 * The last slot of a schedule that was sent, kept through restarts as a message in a queue beside the mailbox.
 * Nothing receives it.
 *
 * A message cannot be changed, so a new record is sent before the old ones are deleted, and the latest one
 * counts. A process that ends in between leaves a record that the next slot deletes. All replicas write the
 * same records with the same ids.
 */
export class SlotRecord {
  readonly #queue: Mailbox<StoredRecord>;
  readonly #name: string;
  readonly #schedule: Schedule;

  constructor(queue: Mailbox<StoredRecord>, name: string, schedule: Schedule) {
    this.#queue = queue;
    this.#name = name;
    this.#schedule = schedule;
  }

  /**
   * Returns the slot up to which all slots were sent. On the first start with this schedule it is the time of
   * the start, which is stored: the first of several replicas decides.
   */
  async begin(now: number): Promise<number> {
    const found = latestOf(await this.#own());
    if (found !== undefined) return found;
    await this.#store(now, true);
    return latestOf(await this.#own()) ?? now;
  }

  /** Returns the slot up to which all slots were sent; undefined when nothing is stored. */
  async read(): Promise<number | undefined> {
    return latestOf(await this.#own());
  }

  /** Stores that all slots up to `at` were sent, unless a later one is stored. Deletes older records. */
  async save(at: number): Promise<void> {
    const records = await this.#all();
    const slots = records.filter((it) => this.#isOwn(it) && it.isStart !== true);
    const latest = Math.max(at, ...slots.map((it) => it.at));
    if (!slots.some((it) => it.at === latest)) await this.#store(at);
    const old = records.filter((it) =>
      this.#isOwn(it) ? it.isStart === true || it.at < latest : it.at < latest - OLD_SCHEDULE_MS
    );
    await this.#delete(new Set(old.map(({ id }) => id)));
  }

  async close(): Promise<void> {
    await this.#queue.close();
  }

  async #store(at: number, isStart = false): Promise<void> {
    const { pattern: schedule, timezone } = this.#schedule;
    const slot = isStart ? "start" : new Date(at).toISOString();
    const record = { name: this.#name, schedule, timezone, at };
    await this.#queue.send(isStart ? { ...record, isStart } : record, {
      id: `${this.#name}@${slot} ${schedule} ${timezone}`,
    });
  }

  async #own(): Promise<readonly IdentifiedRecord[]> {
    return (await this.#all()).filter((it) => this.#isOwn(it));
  }

  /** Returns the records of this name, also those of other schedules. */
  async #all(): Promise<readonly IdentifiedRecord[]> {
    const peeked = await this.#queue.peek!(MAX_BATCH);
    if (peeked.length === MAX_BATCH) {
      throw new RangeError(
        `Queue "${this.#queue.name}" has ${MAX_BATCH} records of slots or more: use another mailbox ` +
          "for some of the schedules",
      );
    }
    // Another program may have sent a message to the queue of the records.
    return peeked.map(({ id, body }) => ({ ...body, id })).filter(({ name, at }) => {
      return name === this.#name && Number.isInteger(at) && Math.abs(at) <= MAX_TIME;
    });
  }

  #isOwn({ schedule, timezone }: StoredRecord): boolean {
    return schedule === this.#schedule.pattern && timezone === this.#schedule.timezone;
  }

  async #delete(ids: ReadonlySet<string>): Promise<void> {
    const queue = this.#queue;
    if (ids.size === 0) return;
    if (queue.capabilities.lookup) {
      for (const id of ids) await queue.cancel(id);
      return;
    }
    const received = await queue.receive({
      maxMessages: MAX_BATCH,
      visibilityTimeoutMs: CLEANING_MS,
    });
    for (const message of received) {
      await (ids.has(message.id) ? message.acknowledge() : message.release());
    }
  }
}

/** A slot comes before a start: a replica that was suspended may have stored its start late. */
function latestOf(records: readonly StoredRecord[]): number | undefined {
  const slots = records.filter(({ isStart }) => isStart !== true);
  const times = (slots.length > 0 ? slots : records).map(({ at }) => at);
  return times.length === 0 ? undefined : Math.max(...times);
}
