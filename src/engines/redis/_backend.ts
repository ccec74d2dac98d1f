import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import { Calls } from "./_calls.ts";
import { connect } from "./_connect.ts";
import type { RedisClient } from "./redis_client.ts";
import { WakeChannels } from "./_wake_channels.ts";

/** Options of {@linkcode Backend}. */
export interface BackendOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly callTimeoutMs: number;
  readonly pollIntervalMs: number;
}

interface Opened {
  readonly calls: Calls;
  readonly channels: WakeChannels;
  disconnect(): Promise<void>;
}

const NO_MEMORY =
  "Redis has no memory left and refuses sends. Receive messages, free memory or raise " +
  "its maxmemory; workers still process the stored messages";

/** Whether the server has memory left, by its replies. Logs each change once. */
class MemoryStatus {
  readonly #log: Log;
  #full = false;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Describes the problem; undefined while the server accepts sends. */
  get trouble(): string | undefined {
    return this.#full ? NO_MEMORY : undefined;
  }

  update(full: boolean): void {
    if (full === this.#full) return;
    this.#full = full;
    if (full) this.#log.warn(NO_MEMORY);
    else this.#log.info("Redis has memory again and accepts sends");
  }
}

/** The connection that a mailbox and its dead letters share: `unopened ─▶ open ─▶ closed`. */
export class Backend {
  readonly options: BackendOptions;
  readonly memory: MemoryStatus;
  readonly #server: string | RedisClient;
  #opened: Opened | undefined;

  constructor(server: string | RedisClient, options: BackendOptions) {
    this.#server = server;
    this.options = options;
    this.memory = new MemoryStatus(options.log);
  }

  /** Connects, unless the caller passed a client. */
  async open(): Promise<void> {
    const server = this.#server;
    const { clock, log, callTimeoutMs } = this.options;
    const { client, disconnect } = typeof server === "string"
      ? await connect(server, callTimeoutMs, clock, log)
      : { client: server, disconnect: () => Promise.resolve() };
    const channels = WakeChannels.acquire(client, log);
    this.#opened = { calls: new Calls(client, clock, callTimeoutMs), channels, disconnect };
  }

  get closed(): boolean {
    return this.#opened === undefined;
  }

  get calls(): Calls {
    return this.#open.calls;
  }

  get channels(): WakeChannels {
    return this.#open.channels;
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.channels.release();
    await opened?.disconnect();
  }

  get #open(): Opened {
    if (this.#opened === undefined) {
      throw new MailboxClosedError(
        "Cannot call Redis: this mailbox has closed its connection. Open the mailbox again",
      );
    }
    return this.#opened;
  }
}
