/**
 * The connection to a Redis server: script calls with timeouts, and notification channels. Mailboxes use it,
 * and other parts of the package that store data in Redis.
 *
 * @module
 */

import { show } from "../../_checks.ts";
import type { Cancel } from "../../clock.ts";
import {
  InvalidParameterError,
  MailboxClosedError,
  MailboxConnectionError,
} from "../../mailbox/errors.ts";
import { type Random, systemRandom } from "../../random.ts";
import { PendingCalls } from "../_kit/calls.ts";
import { checkServerUrl, connect, type OwnConnection } from "./_connect.ts";
import {
  connectionError,
  type ConnectionOptions,
  isUnknownScript,
  type RedisClient,
} from "./redis_client.ts";
import type { QueueScript, Script } from "./scripts/script.ts";
import { WakeChannels } from "./_wake_channels.ts";

export { Script } from "./scripts/script.ts";

/** Options of {@linkcode openRedisLink}. `random` has a default, {@linkcode systemRandom}. */
export type RedisLinkOptions = Omit<ConnectionOptions, "random"> & {
  readonly random?: Random | undefined;
};

/** The arguments of a script. */
export type Values = readonly (string | number)[];

/** Runs a script on the keys of a queue, and on further ones. `verb` is what the script does. */
export type RunScript = (
  verb: string,
  script: QueueScript,
  values: Values,
  moreKeys?: readonly string[],
) => Promise<unknown[]>;

/** The part of a client that runs scripts. */
type ScriptClient = Pick<RedisClient, "eval" | "evalsha">;

/** How long after the last call `settled` waits at most. A frozen server must not delay a shutdown. */
const LINGER_MS = 1_000;

/** Expiry of the first call: the server's time is not known yet. */
const NO_EXPIRY_US = Number.MAX_SAFE_INTEGER;

/** The times, by the server's clock, between which the server may run a call. */
export interface CallWindow {
  readonly fromUs: number;
  readonly untilUs: number;
}

interface Opened extends OwnConnection {
  readonly channels: WakeChannels;
}

/**
 * A connection: `unopened ─▶ open ─▶ closed`. It runs scripts, each with a timeout.
 *
 * A call that timed out cannot be cancelled: it may wait in a buffer until the server wakes up. So each
 * call carries an expiry time by the server's clock, after which the script does nothing. The link derives
 * the server's clock from the last reply; the estimate is late by at most the latency of that call. If the
 * server refuses a call that has not timed out here, the link repeats it with the time from the refusal.
 */
export class RedisLink {
  readonly options: ConnectionOptions;
  readonly #server: string | RedisClient;
  readonly #pending = new PendingCalls();
  #opened: Opened | undefined;
  #lastCallAtUs = 0;
  /**
   * The lower bound of the server's clock minus the local clock, in microseconds. `#mostOffsetUs` is the upper
   * bound.
   */
  #offsetUs: number | undefined;
  #mostOffsetUs = NO_EXPIRY_US;

  /** Connects to nothing. A client that is passed stays open after `close`. */
  constructor(server: string | RedisClient, options: RedisLinkOptions) {
    this.#server = checkServer(server);
    this.options = { ...options, random: options.random ?? systemRandom };
  }

  /** Connects, unless the caller passed a client. */
  async open(): Promise<void> {
    const server = this.#server;
    const { client, disconnect } = typeof server === "string"
      ? await connect(server, this.options)
      : { client: server, disconnect: () => Promise.resolve() };
    const channels = WakeChannels.acquire(client, this.options.log);
    this.#opened = { client, channels, disconnect };
  }

  /** The URL of the server; undefined when the caller passed a client. */
  get url(): string | undefined {
    return typeof this.#server === "string" ? this.#server : undefined;
  }

  /** True when the client is that of a cluster. */
  get isCluster(): boolean {
    return this.#open.client.nodes !== undefined;
  }

  /** False if the client holds calls back to send several together. */
  get sendsAtOnce(): boolean {
    return this.#open.client.options?.enableAutoPipelining !== true;
  }

  get closed(): boolean {
    return this.#opened === undefined;
  }

  get channels(): WakeChannels {
    return this.#open.channels;
  }

  /** Returns the window in which the server may run a call that starts now. */
  get window(): CallWindow {
    const nowUs = this.#nowUs();
    return {
      fromUs: this.#serverTime(nowUs),
      untilUs: this.#serverTime(nowUs + this.options.callTimeoutMs * 1_000),
    };
  }

  /**
   * Returns the latest time that the server's clock may show. It is later than the estimate if this process was
   * suspended.
   */
  get latestUs(): number {
    return this.#nowUs() + this.#mostOffsetUs;
  }

  /** The server, or the primary nodes of the cluster, as clients that run scripts without keys. */
  get nodes(): readonly ScriptClient[] {
    const { client } = this.#open;
    return client.nodes?.("master") ?? [client];
  }

  /** Runs a script and resolves with its reply. `action` completes "Redis failed to …" in an error. */
  async run(
    action: string,
    script: Script,
    keys: readonly string[],
    args: Values,
    client: ScriptClient = this.#open.client,
  ): Promise<unknown[]> {
    const call = this.#withTimeout(action, (endsAtUs) => {
      return this.#runUntilAccepted(client, action, script, keys, args, endsAtUs);
    });
    try {
      return await this.#pending.track(call);
    } catch (error) {
      throw connectionError(action, error);
    }
  }

  /** Resolves when no call is pending, or at the latest 1 s after the last call started. */
  async settled(): Promise<void> {
    const leftMs = LINGER_MS - (this.#nowUs() - this.#lastCallAtUs) / 1_000;
    await this.#pending.settled(Math.max(0, leftMs), this.options.clock);
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.channels.release();
    await opened?.disconnect();
  }

  get #open(): Opened {
    if (this.#opened !== undefined) return this.#opened;
    throw new MailboxClosedError(
      "Cannot call Redis: this mailbox has closed its connection. Open the mailbox again",
    );
  }

  async #withTimeout<T>(action: string, act: (endsAtUs: number) => Promise<T>): Promise<T> {
    const { clock, callTimeoutMs } = this.options;
    let cancel: Cancel | undefined;
    this.#lastCallAtUs = this.#nowUs();
    const endsAtUs = this.#lastCallAtUs + callTimeoutMs * 1_000;
    const expired = new Promise<never>((_, reject) => {
      cancel = clock.schedule(callTimeoutMs, () => reject(this.#timeoutError(action)));
    });
    try {
      return await Promise.race([act(endsAtUs), expired]);
    } finally {
      cancel?.();
    }
  }

  async #runUntilAccepted(
    client: ScriptClient,
    action: string,
    script: Script,
    keys: readonly string[],
    args: Values,
    endsAtUs: number,
  ): Promise<unknown[]> {
    for (;;) {
      const values = [this.#serverTime(endsAtUs), ...args];
      const startedUs = this.#nowUs();
      const reply = await evaluate(client, script, keys, values) as [number, ...unknown[]];
      this.#offsetUs = reply[0] - this.#nowUs();
      this.#mostOffsetUs = reply[0] - startedUs;
      if (reply.length > 1) return reply;
      if (this.#nowUs() >= endsAtUs) throw this.#timeoutError(action);
    }
  }

  #timeoutError(action: string): MailboxConnectionError {
    return new MailboxConnectionError(
      `Redis did not answer within ${this.options.callTimeoutMs} ms when asked to ${action}: it is ` +
        "overloaded, frozen or unreachable. Check the server; the next call tries again",
    );
  }

  #serverTime(us: number): number {
    return this.#offsetUs === undefined ? NO_EXPIRY_US : Math.floor(us + this.#offsetUs);
  }

  #nowUs(): number {
    return this.options.clock.monotonic() * 1_000;
  }
}

/** Connects to the server or the cluster at a URL, or uses a client such as that of `ioredis`. */
export async function openRedisLink(
  server: string | RedisClient,
  options: RedisLinkOptions,
): Promise<RedisLink> {
  const link = new RedisLink(server, options);
  await link.open();
  return link;
}

async function evaluate(
  client: ScriptClient,
  script: Script,
  keys: readonly string[],
  args: Values,
): Promise<unknown> {
  const sha = await script.sha();
  try {
    return await client.evalsha(sha, keys.length, ...keys, ...args);
  } catch (error) {
    if (!isUnknownScript(error)) throw error;
    return await client.eval(script.text, keys.length, ...keys, ...args);
  }
}

function checkServer(server: string | RedisClient): string | RedisClient {
  if (typeof server === "string") return checkServerUrl(server);
  if (server !== null && typeof server === "object" && "onclose" in server) {
    throw new InvalidParameterError(
      "Invalid client: a mailbox cannot share Bun's built-in client; pass its URL, and the mailbox " +
        "creates a client of its own",
    );
  }
  const parts = ["eval", "evalsha", "duplicate"] as const;
  if (parts.every((part) => typeof server?.[part] === "function")) return server;
  throw new InvalidParameterError(
    `Invalid client: expected a URL or a client like that of ioredis, got ${show(server)}`,
  );
}
