import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { BunLink, type BunRedis } from "./_bun_link.ts";
import type { RedisClient, RedisSubscriber } from "./redis_client.ts";

type BunModule = {
  readonly RedisClient?: new (url: string, options: object) => BunRedis;
};

/** Not a literal: it is there on one runtime only. */
const MODULE: string = "bun";

/** In earlier versions it was found to be young. */
const OLDEST = [1, 4] as const;

/** Makes a connection that does nothing of its own accord when it breaks. */
export type MakeBunRedis = (url: string, timeoutMs: number) => BunRedis;

/**
 * How to make a client of Bun's own, which costs less than half of what others do there. Undefined on
 * other runtimes, and for URLs with parameters, which only `ioredis` knows.
 */
export async function bunRedis(url: string): Promise<MakeBunRedis | undefined> {
  if (!isBun(globalThis.navigator?.userAgent ?? "") || url.includes("?")) return undefined;
  const { RedisClient } = await import(MODULE) as BunModule;
  if (RedisClient === undefined) return undefined;
  return (url, timeoutMs) =>
    new RedisClient(url, { connectionTimeout: timeoutMs, autoReconnect: false });
}

function isBun(userAgent: string): boolean {
  const [name, version = ""] = userAgent.split("/");
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return name === "Bun" && (major > OLDEST[0] || major === OLDEST[0] && minor >= OLDEST[1]);
}

/** A connection that commands are sent on. */
export class BunClient implements RedisClient {
  readonly #link: BunLink;
  readonly #make: () => BunRedis;
  readonly #timeoutMs: number;
  readonly #clock: Clock;

  constructor(make: () => BunRedis, timeoutMs: number, clock: Clock, log: Log) {
    this.#make = make;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
    const onLost = (error: unknown) => log.debug("the connection to Redis failed", { error });
    this.#link = new BunLink({ make, timeoutMs, clock, onLost });
  }

  async connect(): Promise<void> {
    await this.#link.client();
  }

  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown> {
    return this.#link.ask("EVALSHA", [sha, `${keys}`, ...args.map(String)]);
  }

  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown> {
    return this.#link.ask("EVAL", [script, `${keys}`, ...args.map(String)]);
  }

  duplicate(): BunSubscriber {
    return new BunSubscriber(this.#make, this.#timeoutMs, this.#clock);
  }

  disconnect(): void {
    this.#link.end();
  }
}

/** A connection that notifications come on. It is made with the first channel. */
export class BunSubscriber implements RedisSubscriber {
  readonly #link: BunLink;
  readonly #listeners = new Map<string, ((...args: unknown[]) => void)[]>();
  /** What this connection has joined: to join again would mean to hear everything twice. */
  #joined = new Map<string, Promise<unknown>>();

  constructor(make: () => BunRedis, timeoutMs: number, clock: Clock) {
    this.#link = new BunLink({
      make,
      timeoutMs,
      clock,
      onOpen: () => {
        this.#joined = new Map();
        this.#tell("ready");
      },
      onLost: (error) => {
        this.#tell("error", error);
        this.#tell("close");
      },
    });
  }

  async subscribe(...channels: string[]): Promise<void> {
    const client = await this.#link.client();
    const hear = (text: string, channel: string) => this.#tell("message", channel, text);
    await Promise.all(channels.map((channel) => {
      const joined = this.#joined.get(channel) ?? client.subscribe(channel, hear);
      this.#joined.set(channel, joined);
      joined.catch(() => this.#joined.delete(channel)); // another attempt is free to join
      return joined;
    }));
  }

  async unsubscribe(...channels: string[]): Promise<void> {
    const client = await this.#link.client();
    for (const channel of channels) {
      if (this.#joined.delete(channel)) await client.unsubscribe(channel);
    }
  }

  on(event: string, listener: (...args: unknown[]) => void): void {
    this.#listeners.set(event, [...this.#listeners.get(event) ?? [], listener]);
  }

  disconnect(): void {
    this.#link.end();
  }

  #tell(event: string, ...args: unknown[]): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(...args);
  }
}
