import type { Log } from "../../log.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { RedisLink } from "./redis_link.ts";
import { KEY_TYPES, Script } from "./scripts/script.ts";

/**
 * Checks the types of the keys before another script uses them. Replies with the marker of the format (0: the
 * queue is new), or with -1 and the key that has another type.
 */
const FORMAT: Script = new Script(`
local types = { ${KEY_TYPES.map((type) => `'${type}'`).join(", ")} }
for i, key in ipairs(KEYS) do
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= types[i] then return { now, -1, key, type } end
end
return { now, tonumber(redis.call('HGET', KEYS[1], 'format') or 0) or -2 }
`);

/** Replies with the eviction policy of the server; "" when the user may not read it. */
const POLICY: Script = new Script(`
local info = redis.pcall('INFO', 'memory')
return { now, type(info) == 'string' and string.match(info, 'maxmemory_policy:(%S+)') or '' }
`);

/** What a reply reports about the storage. */
export interface StorageNotes {
  /** Messages whose body was deleted. */
  readonly bodiless: number;
  /** Messages that were in none of the lists and are queued again. */
  readonly orphaned: number;
  /** The number of the last message sent, if the reply has it. */
  readonly last?: number | undefined;
  /** The number of a received message; that of the last message sent may be higher. */
  readonly highest?: number | undefined;
}

/**
 * Detects that a server lost messages: other programs deleted keys, the server evicted them, or it
 * restarted without its data. Message numbers only grow, so a smaller number reveals a restart without data.
 */
export class StorageWatch {
  readonly #name: string;
  readonly #link: RedisLink;
  readonly #keys: readonly string[];
  readonly #expires: boolean;
  /** The last known message number, and its time by the server's clock. */
  #last = { number: 0, atUs: 0 };
  #policy = "";

  /** `expires` tells that the server deletes the queue in time: its numbers then start again. */
  constructor(name: string, link: RedisLink, keys: readonly string[], expires: boolean) {
    this.#name = name;
    this.#link = link;
    this.#keys = keys;
    this.#expires = expires;
  }

  /** Throws when another program wrote the keys. Warns when the server may evict messages. */
  async checkFormat(action: string): Promise<void> {
    const [, format, key, type] = await this.#link.run(action, FORMAT, this.#keys, []);
    if (format === 0 || format === 1 || format === 2) return await this.#checkPolicy();
    const found = format === -1
      ? `the key "${key}" is a ${type}, so another program wrote it. Choose another name`
      : `its format is ${
        format === -2 ? "unknown" : format
      }, and this version reads formats 1 and 2. ` +
        "Update this program, or choose another name";
    throw new MailboxConnectionError(
      `Cannot open mailbox "${this.#name}": ${found}. Nothing was changed`,
    );
  }

  /** Evaluates a reply of this server time. Returns a promise when there is something to log. */
  note(nowUs: number, { bodiless, orphaned, last, highest = 0 }: StorageNotes): Maybe<void> {
    const losses: [event: string, fields: Record<string, unknown>][] = [];
    if (bodiless > 0) {
      losses.push([
        "messages lost: another program or an eviction deleted their bodies; send them again",
        { count: bodiless },
      ]);
    }
    if (orphaned > 0) {
      losses.push([
        "orphaned messages queued again: another program or an eviction deleted keys of the mailbox",
        { count: orphaned },
      ]);
    }
    const before = this.#last.number;
    if (!this.#expires && nowUs > this.#last.atUs && (last !== undefined || highest > before)) {
      this.#last = { number: last ?? highest, atUs: nowUs };
    }
    if (this.#last.number < before) {
      losses.push([
        "messages lost: the server restarted without its data, was flushed, or a replica that lagged " +
        "behind replaced it; send the missing messages again",
        { lastNumber: last, lastNumberBefore: before },
      ]);
    }
    if (losses.length > 0) return this.#report(losses);
  }

  async #report(
    losses: readonly (readonly [event: string, fields: Record<string, unknown>])[],
  ): Promise<void> {
    try {
      await this.#checkPolicy();
    } catch {
      // The policy is a hint; the losses below must be logged anyway.
    }
    for (const [event, fields] of losses) {
      this.#link.options.log.error(event, { mailbox: this.#name, ...fields });
    }
  }

  /** Warns when the server may evict messages, once for each change of the policy. */
  async #checkPolicy(): Promise<void> {
    const action = "read its eviction policy";
    const [, policy] = await this.#link.run(action, POLICY, this.#keys, []);
    if (policy === this.#policy) return;
    this.#policy = policy as string;
    // The other policies evict only keys with an expiry. Of a mailbox only the replies to requests have one.
    if (!this.#policy.startsWith("allkeys")) return;
    this.#link.options.log.warn(
      "Redis may delete messages when its memory is full: set maxmemory-policy to noeviction",
      { mailbox: this.#name, policy },
    );
  }
}

const OUT_OF_MEMORY = "Redis has no memory left and refuses sends: receive messages, free memory " +
  "or raise its maxmemory; workers still process the stored messages";

/** Whether the server has memory left, by its replies. Logs each change once. */
export class MemoryWatch {
  readonly #log: Log;
  #isFull = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Describes the problem; undefined while the server accepts sends. */
  get trouble(): string | undefined {
    return this.#isFull ? OUT_OF_MEMORY : undefined;
  }

  update(isFull: boolean): void {
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    if (isFull) this.#log.warn(OUT_OF_MEMORY);
    else this.#log.info("Redis has memory again and accepts sends");
  }
}
