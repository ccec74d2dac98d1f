import type { Maybe } from "../../mailbox/engine.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Backend } from "./_backend.ts";
import type { Keys } from "./_keys.ts";
import { FORMAT, POLICY } from "./scripts/inspect.ts";

/** What a reply reports about the storage. */
export interface StorageNotes {
  /** Messages whose body was deleted. */
  readonly bodiless: number;
  /** Messages that were in none of the lists and are queued again. */
  readonly orphaned: number;
  /** The number of the last message sent, if the reply has it. */
  readonly last?: number | undefined;
  /** The highest number among the received messages; that of the last message sent may be higher. */
  readonly highest?: number | undefined;
}

/**
 * Detects that a server lost messages: other programs deleted keys, the server evicted them, or it
 * restarted without its data. Message numbers only grow, so a smaller number reveals a restart without data.
 */
export class StorageWatch {
  readonly #name: string;
  readonly #backend: Backend;
  readonly #keys: Keys;
  /** The last known message number, and its time by the server's clock. */
  #last = { number: 0, atUs: 0 };
  #policy = "";

  constructor(name: string, backend: Backend, keys: Keys) {
    this.#name = name;
    this.#backend = backend;
    this.#keys = keys;
  }

  /** Throws when another program wrote the keys. Warns when the server may evict messages. */
  async checkFormat(action: string): Promise<void> {
    const [, format, key, type] = await this.#backend.calls.run(action, FORMAT, this.#keys, []);
    if (format === 0 || format === 1) return await this.checkPolicy();
    const found = format === -1 ? `the key "${key}" is a ${type}` : `its format is not 1`;
    throw new MailboxConnectionError(
      `Mailbox "${this.#name}" cannot be opened: ${found}, so another program wrote it. Nothing was ` +
        "changed; choose another name",
    );
  }

  /** Warns when the server may evict messages, once for each change of the policy. */
  async checkPolicy(): Promise<void> {
    const [, policy] = await this.#backend.calls.run(
      "read its eviction policy",
      POLICY,
      this.#keys,
      [],
    );
    if (policy === this.#policy) return;
    this.#policy = policy as string;
    // The other policies evict only keys with an expiry, and the keys of a mailbox have none.
    if (!this.#policy.startsWith("allkeys")) return;
    this.#backend.options.log.warn(
      `Redis deletes messages of mailbox "${this.#name}" when its memory is full: its ` +
        `maxmemory-policy is ${policy}. Set it to noeviction`,
      { mailbox: this.#name, policy },
    );
  }

  /** Evaluates a reply of this server time. Returns a promise when there is something to log. */
  note(nowUs: number, { bodiless, orphaned, last, highest = 0 }: StorageNotes): Maybe<void> {
    const name = this.#name;
    const texts: string[] = [];
    if (bodiless > 0) {
      texts.push(
        `${bodiless} messages of "${name}" are lost: another program or an eviction deleted their ` +
          "bodies. Send them again",
      );
    }
    if (orphaned > 0) {
      texts.push(
        `${orphaned} messages of "${name}" were orphaned and are delivered again: another program or ` +
          "an eviction deleted keys of the mailbox",
      );
    }
    const before = this.#last.number;
    if (nowUs > this.#last.atUs && (last !== undefined || highest > before)) {
      this.#last = { number: last ?? highest, atUs: nowUs };
    }
    if (this.#last.number < before) {
      texts.push(
        `Redis has lost messages of "${name}": the last one had the number ${before}, and now it is ` +
          `${last}. The server restarted without its data, was flushed, or a replica that lagged ` +
          "behind replaced it. Send the missing messages again",
      );
    }
    if (texts.length > 0) return this.#report(texts);
  }

  async #report(texts: readonly string[]): Promise<void> {
    try {
      await this.checkPolicy();
    } catch {
      // The policy is a hint; the losses below must be logged anyway.
    }
    for (const text of texts) this.#backend.options.log.error(text, { mailbox: this.#name });
  }
}
