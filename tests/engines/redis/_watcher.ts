import { assertEquals } from "@std/assert";
import type { Redis } from "ioredis";
import { type RedisClient, RedisMailbox } from "../../../src/engines/redis/mod.ts";
import { ABSENT } from "../../../src/engines/redis/scripts/owners.ts";
import type { Log } from "../../../src/log.ts";
import { Child } from "../../signals/_child.ts";
import { eventually } from "../_servers.ts";
import { look } from "./_redis.ts";

type Warning = readonly [event: string, fields: Readonly<Record<string, unknown>>];

/** A mailbox that tells how often it has looked for workers that have died, and what it has logged. */
export class Watcher implements AsyncDisposable {
  readonly mailbox: RedisMailbox<unknown>;
  readonly admin: Redis;
  /** The warnings and errors of the mailbox. */
  readonly warnings: readonly Warning[];
  readonly #name: string;
  readonly #counter: { looks: number };

  private constructor(
    name: string,
    mailbox: RedisMailbox<unknown>,
    admin: Redis,
    warnings: readonly Warning[],
    counter: { looks: number },
  ) {
    this.#name = name;
    this.mailbox = mailbox;
    this.admin = admin;
    this.warnings = warnings;
    this.#counter = counter;
  }

  static async open(url: string, name: string): Promise<Watcher> {
    const { redis } = look(url);
    const counter = { looks: 0 };
    const sha = await ABSENT.sha();
    const counted = async (script: unknown, reply: Promise<unknown>) => {
      await reply;
      if (script === sha || script === ABSENT.text) counter.looks++;
      return reply;
    };
    const client: RedisClient = {
      evalsha: (...args) => counted(args[0], redis.evalsha(...args)),
      eval: (...args) => counted(args[0], redis.eval(...args)),
      duplicate: (options) => redis.duplicate(options),
    };
    const warnings: Warning[] = [];
    const warn: Log["warn"] = (event, fields = {}) => void warnings.push([event, fields]);
    const log = { debug() {}, info() {}, warn, error: warn };
    const mailbox = await RedisMailbox.open<unknown>(client, {
      name,
      log,
      pollIntervalMs: 600_000,
    });
    return new Watcher(name, mailbox, redis, warnings, counter);
  }

  /** How many looks have ended. */
  get looks(): number {
    return this.#counter.looks;
  }

  /** Receives nothing until so many more looks have ended. */
  async seesNothing(looks: number): Promise<void> {
    const end = this.looks + looks;
    while (this.looks < end) {
      const received = await eventually(() => this.mailbox.receive({ waitTimeMs: 500 }));
      assertEquals(received.map(({ body }) => body), []);
    }
  }

  /** Returns the number of registered owners. */
  async owners(): Promise<number> {
    return await this.admin.hlen(`{lastcall:${this.#name}}:owners`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mailbox.close();
    this.admin.disconnect();
  }
}

/** Starts a process that holds messages of queues, `count` of each. */
export async function hold(count: number, url: string, ...names: string[]): Promise<Child> {
  const urls = names.map((name) => `${url}?queue=${name}`);
  const args = [`${count}`, ...urls];
  const child = Child.start("../../engines/redis/fixtures/holder", { args });
  await child.line("holding");
  return child;
}
