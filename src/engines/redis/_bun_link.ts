import type { Cancel, Clock } from "../../clock.ts";

/** What is used of the client that Bun brings along. One that has lost its connection is of no use any more. */
export interface BunRedis {
  connect(): Promise<unknown>;
  send(command: string, args: string[]): Promise<unknown>;
  subscribe(channel: string, listener: (text: string, channel: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  close(): void;
  onclose: ((error: unknown) => void) | null;
}

/** How connections are made, and who is told of them. */
export interface LinkOptions {
  readonly make: () => BunRedis;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly onOpen?: () => void;
  readonly onLost: (error: unknown) => void;
}

const PAUSE_MS = { step: 50, longest: 1_000 } as const;

/**
 * A connection that is made again whenever it breaks: `trying ⇄ open`, until it is ended.
 *
 * With a broken connection goes its client, and all that was under way fails: nothing is sent twice.
 * Whoever asks while there is none waits for the next attempt, and fails with it.
 */
export class BunLink {
  readonly #options: LinkOptions;
  #client: BunRedis | undefined;
  #attempt: Promise<BunRedis> | undefined;
  #failures = 0;
  #ended = false;
  #cancelPause: Cancel | undefined;
  /** Calls without an answer, and when something was heard last. */
  #pending = 0;
  #heardAt = 0;
  #cancelWatch: Cancel | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** The open connection, or that of the next attempt. */
  client(): Promise<BunRedis> {
    return this.#attempt ??= this.#connect(0);
  }

  /** Has something asked of the server. */
  async ask(command: string, args: string[]): Promise<unknown> {
    const client = this.#client ?? await this.client();
    if (this.#pending++ === 0) this.#heardAt = this.#options.clock.monotonic();
    if (this.#cancelWatch === undefined) this.#watch(2 * this.#options.timeoutMs);
    try {
      return await client.send(command, args);
    } catch (error) {
      // After a failover the old master is there, and takes nothing any more.
      if (error instanceof Error && error.message.startsWith("READONLY")) client.close();
      throw error;
    } finally {
      this.#pending--;
      this.#heardAt = this.#options.clock.monotonic();
    }
  }

  /** Ends it for good. */
  end(): void {
    this.#ended = true;
    this.#cancelPause?.();
    this.#cancelWatch?.();
    this.#client?.close();
  }

  #connect(pauseMs: number): Promise<BunRedis> {
    const attempt = this.#try(pauseMs);
    attempt.catch((error) => {
      if (this.#ended) return;
      this.#again();
      this.#options.onLost(error);
    });
    return attempt;
  }

  async #try(pauseMs: number): Promise<BunRedis> {
    if (pauseMs > 0) {
      await new Promise<void>((resolve) => {
        this.#cancelPause = this.#options.clock.schedule(pauseMs, resolve);
      });
    }
    const client = this.#options.make();
    client.onclose = (error) => this.#lost(client, error);
    // Why it was refused is told to the first command only.
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

  #lost(client: BunRedis, error: unknown): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    if (this.#ended) return;
    this.#again();
    this.#options.onLost(error);
  }

  #again(): void {
    const pauseMs = Math.min(PAUSE_MS.step * ++this.#failures, PAUSE_MS.longest);
    this.#attempt = this.#connect(pauseMs * (0.5 + Math.random() / 2));
  }

  /**
   * A connection that hears nothing is dead, though nobody may have said so. Not before the calls on it
   * have failed by themselves, and do nothing any more should they arrive after all.
   */
  #watch(afterMs: number): void {
    const { clock, timeoutMs } = this.#options;
    this.#cancelWatch = clock.schedule(afterMs, () => {
      this.#cancelWatch = undefined;
      if (this.#pending === 0) return;
      const leftMs = this.#heardAt + 2 * timeoutMs - clock.monotonic();
      if (leftMs > 0) return this.#watch(leftMs);
      this.#client?.close();
    });
  }
}
