import type { Cancel, Clock } from "../../clock.ts";

/** The part of Bun's client that is used. A client that has lost its connection cannot be used again. */
export interface BunRedis {
  connect(): Promise<unknown>;
  send(command: string, args: string[]): Promise<unknown>;
  subscribe(channel: string, listener: (text: string, channel: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  close(): void;
  onclose: ((error: unknown) => void) | null;
}

/** Options of {@linkcode BunLink}. */
export interface LinkOptions {
  readonly make: () => BunRedis;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly onOpen?: () => void;
  readonly onLost: (error: unknown) => void;
}

const RECONNECT_DELAY_MS = { step: 50, max: 1_000 } as const;

/**
 * Reconnects whenever its connection breaks: `connecting ⇄ open`, until `end`.
 *
 * A broken connection fails all pending commands with it, so that no command is sent twice. A command that
 * is sent while there is no connection waits for the next attempt and fails with it.
 */
export class BunLink {
  readonly #options: LinkOptions;
  #client: BunRedis | undefined;
  #attempt: Promise<BunRedis> | undefined;
  #failures = 0;
  #ended = false;
  #cancelDelay: Cancel | undefined;
  /** Commands without a reply. */
  #pending = 0;
  #lastReplyAt = 0;
  #cancelWatch: Cancel | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** Resolves with the open connection, or with that of the next attempt. */
  client(): Promise<BunRedis> {
    return this.#attempt ??= this.#connect(0);
  }

  /** Sends a command and resolves with its reply. */
  async send(command: string, args: string[]): Promise<unknown> {
    const client = this.#client ?? await this.client();
    if (this.#pending++ === 0) this.#lastReplyAt = this.#options.clock.monotonic();
    if (this.#cancelWatch === undefined) this.#watch(2 * this.#options.timeoutMs);
    try {
      return await client.send(command, args);
    } catch (error) {
      // After a failover the old primary stays reachable, but read-only.
      if (error instanceof Error && error.message.startsWith("READONLY")) client.close();
      throw error;
    } finally {
      this.#pending--;
      this.#lastReplyAt = this.#options.clock.monotonic();
    }
  }

  /** Closes the connection and stops reconnecting. */
  end(): void {
    this.#ended = true;
    this.#cancelDelay?.();
    this.#cancelWatch?.();
    this.#client?.close();
  }

  #connect(delayMs: number): Promise<BunRedis> {
    const attempt = this.#try(delayMs);
    attempt.catch((error) => {
      if (this.#ended) return;
      this.#reconnect();
      this.#options.onLost(error);
    });
    return attempt;
  }

  async #try(delayMs: number): Promise<BunRedis> {
    if (delayMs > 0) {
      await new Promise<void>((resolve) => {
        this.#cancelDelay = this.#options.clock.schedule(delayMs, resolve);
      });
    }
    const client = this.#options.make();
    client.onclose = (error) => this.#onClose(client, error);
    // Only the first command gets the reason of a refusal.
    const refusal = client.send("PING", []).then(() => undefined, (error) => error);
    try {
      await client.connect();
    } catch (error) {
      throw await refusal ?? error;
    }
    if (this.#ended) {
      client.close();
      throw new Error("Connection closed");
    }
    this.#failures = 0;
    this.#client = client;
    this.#options.onOpen?.();
    return client;
  }

  #onClose(client: BunRedis, error: unknown): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    if (this.#ended) return;
    this.#reconnect();
    this.#options.onLost(error);
  }

  #reconnect(): void {
    const { step, max } = RECONNECT_DELAY_MS;
    const delayMs = Math.min(step * ++this.#failures, max);
    this.#attempt = this.#connect(delayMs * (0.5 + Math.random() / 2));
  }

  /**
   * Closes a connection that has been silent for twice the call timeout. By then its calls have failed, and
   * the scripts refuse to run them should they still arrive.
   */
  #watch(afterMs: number): void {
    const { clock, timeoutMs } = this.#options;
    this.#cancelWatch = clock.schedule(afterMs, () => {
      this.#cancelWatch = undefined;
      if (this.#pending === 0) return;
      const leftMs = this.#lastReplyAt + 2 * timeoutMs - clock.monotonic();
      if (leftMs > 0) return this.#watch(leftMs);
      this.#client?.close();
    });
  }
}
