import type { EngineStats } from "../../mailbox/engine.ts";
import { indexOf, peekedMessages, type RedisDelivery } from "./_delivery.ts";
import type { RedisLink, RunScript, Values } from "./redis_link.ts";
import { QUEUES } from "./scripts/control.ts";
import { CANCEL, DELIVER_NOW, FIND, SEARCH } from "./scripts/lookup.ts";

/** How many failed calls of `cancel` are kept, in case they are repeated. */
const MAX_FAILED = 1_000;

/** What a {@linkcode Lookup} needs of its engine. */
export interface LookupOptions {
  readonly run: RunScript;
  /** Returns a text that no other call returns, in any process. */
  callId(): string;
  /** Returns the key that tells for a while that a call of `cancel` was run. */
  cancelKey(callId: string): string;
}

/**
 * Finds and cancels messages by id.
 *
 * The server has an index of ids, without those that version 0.1 sent. While a queue may have such messages,
 * an id that is not in the index is searched for in steps.
 */
export class Lookup {
  readonly #options: LookupOptions;
  /** The calls of `cancel` that failed, by message: the server may have run them. */
  readonly #failed = new Map<string, string>();

  constructor(options: LookupOptions) {
    this.#options = options;
  }

  async find(id: string): Promise<RedisDelivery | undefined> {
    const { run } = this.#options;
    return peekedMessages(await this.#locate(id, (values) => run("find", FIND, values)))[0];
  }

  /** Returns whether this call deleted the message, or an earlier attempt whose answer was lost. */
  async cancel(id: string): Promise<boolean> {
    const { run, callId, cancelKey } = this.#options;
    const call = this.#failed.get(id) ?? callId();
    try {
      const [, result] = await this.#locate(id, (values) => {
        return run("cancel", CANCEL, values, [cancelKey(call)]);
      });
      this.#failed.delete(id);
      return result === 1;
    } catch (error) {
      this.#failed.set(id, call);
      if (this.#failed.size > MAX_FAILED) this.#failed.delete(this.#failed.keys().next().value!);
      throw error;
    }
  }

  /** Returns whether the message was delayed. */
  async deliverNow(id: string): Promise<boolean> {
    const { run } = this.#options;
    const [, result] = await this.#locate(id, (values) => run("deliver", DELIVER_NOW, values));
    return result === 1;
  }

  /** Calls `act` with the arguments by which its script finds the message. */
  async #locate(id: string, act: (values: Values) => Promise<unknown[]>): Promise<unknown[]> {
    const head = `[${JSON.stringify(id)},`;
    const indexes = [indexOf({ id, dedup: true }), indexOf({ id, dedup: false })];
    const reply = await act([head, "", ...indexes]);
    if (reply[1] !== -1) return reply;
    const seq = await this.#search(head);
    return seq === undefined ? [reply[0], 0] : await act([head, seq, ...indexes]);
  }

  async #search(head: string): Promise<string | undefined> {
    let cursor = "0";
    do {
      const [, next, seq] = await this.#options.run("find", SEARCH, [head, cursor]);
      if (seq !== undefined) return seq as string;
      cursor = next as string;
    } while (cursor !== "0");
    return undefined;
  }
}

/** Returns the counts in the reply of STATS. */
export function statsOf(reply: readonly unknown[]): EngineStats {
  const [, waiting = 0, delayed, inFlight, pausedUs = 0, oldest = -1] = reply as readonly number[];
  const [max = 0, perMs] = (reply[6] as string).split(" ").map(Number);
  return {
    waiting,
    delayed,
    inFlight,
    paused: pausedUs !== 0,
    ...(pausedUs > 0 && { pausedForMs: pausedUs / 1_000 }),
    ...(perMs !== undefined && { rateLimit: { max, perMs } }),
    ...(oldest >= 0 && { oldestWaitingMs: oldest }),
  };
}

/** Returns the names of all queues on the server or the cluster, without dead letters, in order. */
export async function queueNames(link: RedisLink): Promise<string[]> {
  const found = new Set<string>();
  for (const node of link.nodes) {
    let cursor = "0";
    do {
      const reply = await link.run("list the queues", QUEUES, [], [cursor], node);
      const [, next, names] = reply as [number, string, string[]];
      for (const name of names) found.add(name);
      cursor = next;
    } while (cursor !== "0");
  }
  return [...found].sort();
}
