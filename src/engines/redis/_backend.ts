import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import { Calls } from "./_calls.ts";
import { Condition } from "./_condition.ts";
import { connect } from "./_connect.ts";
import type { RedisClient } from "./redis_client.ts";
import { WakeChannels } from "./_wake_channels.ts";

/** How to reach a server. */
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

/** What a mailbox and its dead letters share: `unopened ─▶ open ─▶ closed`. */
export class Backend {
  readonly options: BackendOptions;
  readonly condition: Condition;
  readonly #server: string | RedisClient;
  #opened: Opened | undefined;

  constructor(server: string | RedisClient, options: BackendOptions) {
    this.#server = server;
    this.options = options;
    this.condition = new Condition(options.log);
  }

  /** Connects, unless the client was handed in. */
  async open(): Promise<void> {
    const server = this.#server;
    const { clock, log, callTimeoutMs } = this.options;
    const { client, disconnect } = typeof server === "string"
      ? await connect(server, callTimeoutMs, clock, log)
      : { client: server, disconnect: () => Promise.resolve() };
    const channels = WakeChannels.enter(client, log);
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
    opened?.channels.leave();
    await opened?.disconnect();
  }

  get #open(): Opened {
    if (this.#opened === undefined) {
      throw new MailboxClosedError("The connection to Redis is closed here");
    }
    return this.#opened;
  }
}
