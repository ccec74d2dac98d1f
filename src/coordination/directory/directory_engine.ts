import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import {
  type Delivery,
  type Engine,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  type Pulled,
} from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxFullError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import { type FileName, fitsInName, orderOf, sentAt } from "./_file_names.ts";
import { each } from "./_files.ts";
import { underLock } from "./_lock.ts";
import { isUnreadable, MessageFolder, visible } from "./_message_folder.ts";
import { onWake, wake } from "./_wakes.ts";

/** How often a waiting receiver polls without a wake. */
const POLL_MS = 1_000;

/** A message that was taken, and what its file is now. */
interface Taken extends Delivery<string> {
  file: FileName;
}

/**
 * A mailbox in a directory. The file of a message has its body and nothing else, so that scripts can read
 * it, and put messages of their own into `inbox`.
 */
export class DirectoryEngine implements Engine<string> {
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
  readonly label = "directory";
  readonly #path: string;
  readonly #folder: MessageFolder;
  readonly #name: string;
  readonly #maxSize: number;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #sender = crypto.randomUUID().slice(0, 8);
  readonly #listeners = new Set<() => void>();
  #lastCount = 0;
  #lastSentAt = 0;

  constructor(path: string, name: string, maxSize: number, clock: Clock, log: Log) {
    this.#path = path;
    this.#folder = new MessageFolder(path, clock, log);
    this.#name = name;
    this.#maxSize = maxSize;
    this.#clock = clock;
    this.#log = log;
  }

  /** Makes the folders where they are not there. */
  async open(): Promise<void> {
    await this.#folder.open();
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    for (const { id } of entries) {
      if (fitsInName(id)) continue;
      throw new InvalidParameterError(
        `Invalid id: expected one that is not longer than 160 bytes, got ${id.length}`,
      );
    }
    let stored = entries.map(() => true);
    if (this.#maxSize === Infinity && !entries.some(({ dedup }) => dedup)) {
      await this.#store(entries);
    } else {
      const lock = join(this.#path, "push.lock");
      await underLock(lock, this.#clock, async () => {
        stored = await this.#freshness(entries);
        await this.#store(entries.filter((_, i) => stored[i]));
      });
    }
    await this.#wake();
    return stored;
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    const { files, nextDueMs } = await this.#folder.line();
    const deliveries: Taken[] = [];
    const failures: unknown[] = [];
    while (files.length > 0 && deliveries.length < max) {
      const tried = files.splice(0, max - deliveries.length);
      const taken = await each(tried, async (file) => {
        try {
          return await this.#take(file, visibilityMs);
        } catch (error) {
          failures.push(error); // those that were taken beside it must be handed over
          return undefined;
        }
      });
      deliveries.push(...taken.filter((it) => it !== undefined));
      if (failures.length > 0 && deliveries.length === 0) throw failures[0];
      if (failures.length > 0) break;
    }
    return { deliveries, nextDueMs: Math.min(nextDueMs, POLL_MS * (0.75 + Math.random() / 2)) };
  }

  async acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return await this.#each(deliveries, ({ file }) => this.#folder.remove(file));
  }

  async extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const until = Math.ceil(this.#clock.now() + visibilityMs);
    return await this.#each(deliveries, async (taken) => {
      // Also where it lasts longer already: whether the file is still there is told by the rename.
      const longer = Math.max(until, taken.file.until ?? 0);
      return await this.#change(taken, { ...taken.file, until: longer });
    });
  }

  async retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const until = Math.ceil(this.#clock.now() + delayMs);
    const results = await this.#each(deliveries, (taken) => {
      const count = taken.file.deliveries - (countsAttempt ? 0 : 1);
      const given = { ...taken.file, deliveries: count, until, receipt: "" };
      return this.#folder.change(taken.file, given);
    });
    await this.#wake();
    return results;
  }

  async release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const results = await this.#each(deliveries, (taken) => {
      const { deliveries: count, releases } = taken.file;
      const spent = releases < FREE_RELEASES ? count - 1 : count;
      const given = { ...visible(taken.file), deliveries: spent, releases: releases + 1 };
      return this.#folder.change(taken.file, given);
    });
    await this.#wake();
    return results;
  }

  async bury(delivery: Delivery<string>, letter: string): Promise<boolean> {
    const { id, replyTo } = delivery;
    const dead = this.deadLetters();
    const [buried = false] = await this.#each([delivery], async (taken) => {
      // No other process can settle it now. If this process dies before the dead letter is stored, the
      // message reappears when its visibility timeout passes.
      if (!await this.#change(taken, { ...taken.file, receipt: "burying" })) return false;
      await dead.open();
      await dead.push([{ id, body: letter, delayMs: 0, replyTo, dedup: false }]);
      await this.#folder.remove(taken.file);
      return true;
    });
    return buried;
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const [saved = false] = await this.#each([delivery], async (taken) => {
      if (!await this.#change(taken, { ...taken.file, more: true })) return false;
      const more = await this.#folder.more(taken.file);
      await this.#folder.saveMore(taken.file, { ...more, checkpoint: progress });
      return true;
    });
    return saved;
  }

  async peek(max: number): Promise<readonly Delivery<string>[]> {
    const found = await each((await this.#folder.all()).slice(0, max), (it) => this.#read(it));
    return found.filter((it) => it !== undefined);
  }

  async count(): Promise<number> {
    return (await this.#folder.all()).length;
  }

  async purge(): Promise<number> {
    return await this.#folder.clear();
  }

  onWake(listener: () => void): () => void {
    this.#listeners.add(listener);
    const stop = onWake(this.#path, this.#folder.inbox, listener, this.#log);
    return () => {
      this.#listeners.delete(listener);
      stop();
    };
  }

  deadLetters(): DirectoryEngine {
    const path = join(this.#path, "dead");
    return new DirectoryEngine(path, `${this.#name}.dead`, Infinity, this.#clock, this.#log);
  }

  close(): void {}

  /** Tells for each entry whether it is new. Throws when there is no room for the new ones. */
  async #freshness(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const all = await this.#folder.all();
    const chosen = new Set(all.flatMap((file) => file.chosen ? [file.id] : []));
    const isFresh = freshnessOf(entries, (id) => chosen.has(id));
    const fresh = isFresh.filter(Boolean);
    if (all.length + fresh.length <= this.#maxSize) return isFresh;
    throw new MailboxFullError(
      `Mailbox "${this.#name}" is full: it holds ${all.length} of ${this.#maxSize} messages and ` +
        `cannot take ${fresh.length} more; receive some, or raise maxSize`,
    );
  }

  async #store(entries: readonly Entry<string>[]): Promise<void> {
    const now = this.#clock.now();
    this.#lastSentAt = Math.max(this.#lastSentAt, now); // clocks are set back, and lines are not
    const stored: FileName[] = [];
    try {
      await each(entries, async ({ id, body, delayMs, replyTo, dedup, checkpoint }) => {
        const file: FileName = {
          order: orderOf(this.#lastSentAt, ++this.#lastCount, this.#sender),
          deliveries: 0,
          releases: 0,
          chosen: dedup,
          more: replyTo !== undefined || checkpoint !== undefined,
          id,
          ...(delayMs > 0 && { until: Math.ceil(now + delayMs), receipt: "" }),
        };
        const address = typeof replyTo === "object" ? replyTo.name : replyTo;
        await this.#folder.write(file, body, {
          ...(address === undefined ? {} : { replyTo: address }),
          ...(checkpoint === undefined ? {} : { checkpoint }),
        });
        stored.push(file);
      });
    } catch (error) {
      await each(stored, (file) => this.#folder.remove(file)); // all, or none
      throw error;
    }
  }

  async #take(file: FileName, visibilityMs: number): Promise<Taken | undefined> {
    const taken: FileName = {
      ...file,
      deliveries: file.deliveries + 1,
      until: Math.ceil(this.#clock.now() + visibilityMs),
      receipt: crypto.randomUUID().slice(0, 8),
    };
    if (!await this.#folder.change(file, taken)) return undefined;
    try {
      return await this.#read(taken);
    } catch (error) {
      if (!isUnreadable(error)) {
        await this.#folder.change(taken, file); // the system is short of something: as it was
        throw error;
      }
      await this.#folder.setAside(taken, error);
      return undefined;
    }
  }

  async #read(file: FileName): Promise<Taken | undefined> {
    const body = await this.#folder.body(file);
    if (body === undefined) return undefined;
    const { replyTo, checkpoint } = await this.#folder.more(file);
    const { id, order, receipt = "", deliveries } = file;
    const enqueuedAt = sentAt(order);
    const receiptOf = `${order}/${receipt}`;
    return {
      id,
      body,
      receipt: receiptOf,
      deliveryCount: deliveries,
      enqueuedAt,
      replyTo,
      checkpoint,
      file,
    };
  }

  async #change(taken: Taken, to: FileName): Promise<boolean> {
    if (!await this.#folder.change(taken.file, to)) return false;
    taken.file = to;
    return true;
  }

  /** Settles the deliveries whose leases have not expired. */
  async #each(
    deliveries: readonly Delivery<string>[],
    settle: (taken: Taken) => Promise<boolean>,
  ): Promise<boolean[]> {
    return await each(deliveries as readonly Taken[], async (taken) => {
      return (taken.file.until ?? 0) > this.#clock.now() && await settle(taken);
    });
  }

  /** Wakes the waiting receivers of this process and of others. */
  async #wake(): Promise<void> {
    for (const listener of [...this.#listeners]) listener();
    await wake(this.#path, this.#clock.now(), this.#log);
  }
}
