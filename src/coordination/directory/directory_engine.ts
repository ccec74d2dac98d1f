import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import {
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  type Received,
  type StoredMessage,
} from "../../mailbox/engine.ts";
import { fullError, InvalidParameterError } from "../../mailbox/errors.ts";
import {
  BASIC_CAPABILITIES,
  type Capabilities,
  type MailboxOptions,
} from "../../mailbox/mailbox.ts";
import { type FileName, fitsInName, orderOf, stateOf, toVisible } from "./_file_names.ts";
import { mapFiles, underLock } from "./_files.ts";
import { type Extras, isUnreadable, MessageFolder } from "./_message_folder.ts";
import { MailboxWakeUps } from "./_wake_ups.ts";

/** The options of an engine. */
export interface DirectoryEngineOptions
  extends Pick<Required<MailboxOptions>, "clock" | "log" | "random"> {
  /** The folder of the mailbox. */
  readonly path: string;
  /** The name of the mailbox, for errors. */
  readonly name: string;
  readonly maxSize: number;
}

/** A delivery, and the current name of its file. */
interface DirectoryDelivery extends Delivery<string> {
  file: FileName;
}

/**
 * Stores a mailbox in a directory. The file of a message has its body and nothing else, so that scripts can
 * read it, and add files of their own to `inbox`.
 */
export class DirectoryEngine implements Engine<string> {
  /** Scripts add and take files at any moment, and know neither keys nor priorities nor pauses. */
  readonly capabilities: Capabilities = { ...BASIC_CAPABILITIES, longDelays: true };
  readonly label = "directory";
  readonly #options: DirectoryEngineOptions;
  readonly #folder: MessageFolder;
  readonly #clock: Clock;
  /** Distinguishes messages that several processes send in the same millisecond. */
  readonly #sender: string;
  readonly #wakeUps: MailboxWakeUps;
  #dead: DirectoryEngine | undefined;
  #lastCount = 0;
  #lastSentAt = 0;

  constructor(options: DirectoryEngineOptions) {
    const { path, clock, log, random } = options;
    this.#options = options;
    this.#folder = new MessageFolder(path, clock, log);
    this.#wakeUps = new MailboxWakeUps(path, clock, log);
    this.#clock = clock;
    this.#sender = random.id().slice(0, 8);
  }

  /** Creates the folders that do not exist. */
  async open(): Promise<void> {
    await this.#folder.open();
  }

  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    for (const { id } of entries) {
      if (fitsInName(id)) continue;
      throw new InvalidParameterError(
        `Invalid id: expected one of at most 160 bytes, got ${id.length} characters`,
      );
    }
    const { path, maxSize } = this.#options;
    let isNew = entries.map(() => true);
    if (maxSize === Infinity && !entries.some(({ dedup }) => dedup)) {
      await this.#store(entries);
    } else {
      // Version 0.1 uses the same lock.
      await underLock(join(path, "push.lock"), this.#clock, async () => {
        isNew = await this.#checkRoom(entries);
        await this.#store(entries.filter((_, i) => isNew[i]));
      });
    }
    await this.#wakeUps.wake();
    return isNew;
  }

  async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    const { files, nextDueMs } = await this.#folder.listVisible();
    const deliveries: DirectoryDelivery[] = [];
    const errors: unknown[] = [];
    while (files.length > 0 && deliveries.length < max && errors.length === 0) {
      const delivered = await mapFiles(files.splice(0, max - deliveries.length), async (file) => {
        try {
          return await this.#deliver(file, visibilityMs);
        } catch (error) {
          errors.push(error); // the other files of this round are delivered
          return undefined;
        }
      });
      deliveries.push(...delivered.filter((it) => it !== undefined));
    }
    if (errors.length > 0 && deliveries.length === 0) throw errors[0];
    return { deliveries, nextDueMs };
  }

  async acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return await this.#settle(deliveries, ({ file }) => this.#folder.remove(file));
  }

  async extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const until = this.#inFuture(visibilityMs);
    return await this.#settle(deliveries, async (delivery) => {
      // Renames the file also when the lease is longer already: the result tells whether it still exists.
      const longer = Math.max(until, delivery.file.until ?? 0);
      return await this.#rename(delivery, { ...delivery.file, until: longer });
    });
  }

  async nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const until = this.#inFuture(delayMs);
    const results = await this.#settle(deliveries, ({ file }) => {
      const attempts = file.deliveries - (countsAttempt ? 0 : 1);
      return this.#folder.change(file, { ...file, deliveries: attempts, until, receiptHandle: "" });
    });
    await this.#wakeUps.wake();
    return results;
  }

  async release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const results = await this.#settle(deliveries, ({ file }) => {
      const releases = file.releases + 1;
      const attempts = releases <= FREE_RELEASES ? file.deliveries - 1 : file.deliveries;
      return this.#folder.change(file, { ...toVisible(file), deliveries: attempts, releases });
    });
    await this.#wakeUps.wake();
    return results;
  }

  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const dead = this.deadLetters();
    const [moved = false] = await this.#settle([delivery], async (delivery) => {
      // With another handle, no other process can settle it. If this process dies before the dead letter
      // is stored, the message reappears when its visibility timeout passes.
      const marked = { ...delivery.file, receiptHandle: "deadletter" };
      if (!await this.#rename(delivery, marked)) return false;
      await dead.open();
      await dead.send([letter]);
      await this.#folder.remove(marked);
      return true;
    });
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const [saved = false] = await this.#settle([delivery], async (delivery) => {
      if (!await this.#rename(delivery, { ...delivery.file, hasExtras: true, releases: 0 })) {
        return false;
      }
      const extras = await this.#folder.extras(delivery.file);
      await this.#folder.saveExtras(delivery.file, { ...extras, checkpoint });
      return true;
    });
    return saved;
  }

  async peek(max: number, skip = 0): Promise<readonly StoredMessage<string>[]> {
    const files = (await this.#folder.listAll()).slice(skip, skip + max);
    const found = await mapFiles(files, (file) => this.#read(file));
    const now = this.#clock.now();
    return found.flatMap((it) => it === undefined ? [] : { ...it, state: stateOf(it.file, now) });
  }

  async count(): Promise<number> {
    return (await this.#folder.listAll()).length;
  }

  stats(): Promise<EngineStats> {
    return this.#folder.stats();
  }

  async purge(): Promise<number> {
    return await this.#folder.clear();
  }

  onWake(listener: () => void): () => void {
    return this.#wakeUps.add(listener);
  }

  deadLetters(): DirectoryEngine {
    const { path, name } = this.#options;
    return this.#dead ??= new DirectoryEngine({
      ...this.#options,
      path: join(path, "dead"),
      name: `${name}.dead`,
      maxSize: Infinity,
    });
  }

  close(): void {}

  /** Returns for each entry whether it is new. Throws when there is no room for the new ones. */
  async #checkRoom(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const { name, maxSize } = this.#options;
    const all = await this.#folder.listAll();
    const chosen = new Set(all.flatMap((file) => file.chosen ? [file.id] : []));
    const isNew = freshnessOf(entries, (id) => chosen.has(id));
    const newCount = isNew.filter(Boolean).length;
    if (all.length + newCount > maxSize) throw fullError(name, all.length, maxSize, newCount);
    return isNew;
  }

  /** Stores all entries, or none. */
  async #store(entries: readonly Entry<string>[]): Promise<void> {
    this.#lastSentAt = Math.max(this.#lastSentAt, this.#clock.now()); // a clock may be set back
    const stored: FileName[] = [];
    try {
      await mapFiles(entries, async ({ id, body, meta, delayMs, dedup, checkpoint }) => {
        const extras: Extras = {
          ...(meta !== undefined && { meta }),
          ...(checkpoint !== undefined && { checkpoint }),
        };
        const file: FileName = {
          order: orderOf(this.#lastSentAt, ++this.#lastCount, this.#sender),
          deliveries: 0,
          releases: 0,
          chosen: dedup,
          hasExtras: Object.keys(extras).length > 0,
          id,
          ...(delayMs > 0 && { until: this.#inFuture(delayMs), receiptHandle: "" }),
        };
        await this.#folder.write(file, body, extras);
        stored.push(file);
      });
    } catch (error) {
      await mapFiles(stored, (file) => this.#folder.remove(file));
      throw error;
    }
  }

  async #deliver(file: FileName, visibilityMs: number): Promise<DirectoryDelivery | undefined> {
    const hidden: FileName = {
      ...file,
      deliveries: file.deliveries + 1,
      until: this.#inFuture(visibilityMs),
      receiptHandle: this.#options.random.id().slice(0, 8),
    };
    if (!await this.#folder.change(file, hidden)) return undefined;
    try {
      return await this.#read(hidden);
    } catch (error) {
      if (!isUnreadable(error)) {
        await this.#folder.change(hidden, file); // the system lacks a resource: undo
        throw error;
      }
      await this.#folder.moveAside(hidden, error);
      return undefined;
    }
  }

  async #read(file: FileName): Promise<DirectoryDelivery | undefined> {
    const stored = await this.#folder.read(file);
    return stored && { ...stored, receiptHandle: `${file.order}/${file.receiptHandle}`, file };
  }

  async #rename(delivery: DirectoryDelivery, to: FileName): Promise<boolean> {
    if (!await this.#folder.change(delivery.file, to)) return false;
    delivery.file = to;
    return true;
  }

  /** Calls `settle` for the deliveries whose leases have not expired. */
  async #settle(
    deliveries: readonly Delivery<string>[],
    settle: (delivery: DirectoryDelivery) => Promise<boolean>,
  ): Promise<boolean[]> {
    return await mapFiles(deliveries as readonly DirectoryDelivery[], async (delivery) => {
      return (delivery.file.until ?? 0) > this.#clock.now() && await settle(delivery);
    });
  }

  #inFuture(ms: number): number {
    return Math.ceil(this.#clock.now() + ms);
  }
}
