import type { Maybe } from "../../mailbox/engine.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Backend } from "./_backend.ts";
import type { Keys } from "./_keys.ts";
import { GREET, POLICY } from "./scripts/look.ts";

/** What an answer tells of the storage beside what was asked for. */
export interface StorageNotes {
  /** Messages whose body is gone. */
  readonly ghosts: number;
  /** Messages that were in no line any more. */
  readonly strays: number;
  /** The number of the last message that was sent, where the answer has it. */
  readonly last?: number | undefined;
  /** The highest number of a message that is there: that of the last one may be higher. */
  readonly highest?: number | undefined;
}

/**
 * Notices when a server loses messages: by keys that others remove, by eviction, or because it came back
 * without its data. Numbers only grow, so one that is smaller than an earlier one tells of the last case.
 */
export class StorageWatch {
  readonly #name: string;
  readonly #backend: Backend;
  readonly #keys: Keys;
  /** The last number that is known, and when it was so by the server's clock. */
  #last = { number: 0, atUs: 0 };
  #policy = "";

  constructor(name: string, backend: Backend, keys: Keys) {
    this.#name = name;
    this.#backend = backend;
    this.#keys = keys;
  }

  /** Refuses what was written by something else, and warns of a server that may evict messages. */
  async greet(what: string): Promise<void> {
    const [, format, key, type] = await this.#backend.calls.run(what, GREET, this.#keys, []);
    if (format === 0 || format === 1) return await this.lookAtPolicy();
    const found = format === -1 ? `the key "${key}" is a ${type}` : `its format is not 1`;
    throw new MailboxConnectionError(
      `Mailbox "${this.#name}" cannot be opened: ${found}, so it was written by something else; ` +
        "it is left alone, choose another name",
    );
  }

  /** Warns when the server may evict messages; says it again only after it was otherwise. */
  async lookAtPolicy(): Promise<void> {
    const [, policy] = await this.#backend.calls.run("look at its policy", POLICY, this.#keys, []);
    if (policy === this.#policy) return;
    this.#policy = policy as string;
    // The others remove only keys that have an end, and those of a mailbox have none.
    if (!this.#policy.startsWith("allkeys")) return;
    this.#backend.options.log.warn(
      `the server of mailbox "${this.#name}" deletes messages when its memory is full: its ` +
        `maxmemory-policy is ${policy}; set it to noeviction`,
      { mailbox: this.#name, policy },
    );
  }

  /** Takes note of what an answer of this time tells. A promise when there is something to tell. */
  note(nowUs: number, { ghosts, strays, last, highest = 0 }: StorageNotes): Maybe<void> {
    const name = this.#name;
    const texts: string[] = [];
    if (ghosts > 0) {
      texts.push(`${ghosts} messages of "${name}" are lost: something has deleted their bodies`);
    }
    if (strays > 0) {
      texts.push(
        `${strays} messages of "${name}" were in no line any more and are delivered again: something ` +
          "has deleted keys of the mailbox",
      );
    }
    const before = this.#last.number;
    if (nowUs > this.#last.atUs && (last !== undefined || highest > before)) {
      this.#last = { number: last ?? highest, atUs: nowUs };
    }
    if (this.#last.number < before) {
      texts.push(
        `Redis has lost messages of "${name}": the last one had the number ${before}, and now it is ` +
          `${last}. The server came back without its data, was emptied, or was replaced by a replica ` +
          "that lagged behind; send again what must not be lost",
      );
    }
    if (texts.length > 0) return this.#tell(texts);
  }

  async #tell(texts: readonly string[]): Promise<void> {
    try {
      await this.lookAtPolicy();
    } catch {
      // It matters less than what is to be told.
    }
    for (const text of texts) this.#backend.options.log.error(text, { mailbox: this.#name });
  }
}
