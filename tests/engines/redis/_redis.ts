import { Redis } from "ioredis";
import { systemClock } from "../../../src/clock.ts";
import { RedisMailbox, type RedisMailboxOptions } from "../../../src/engines/redis/mod.ts";
import { RedisEngine } from "../../../src/engines/redis/redis_engine.ts";
import { openRedisLink } from "../../../src/engines/redis/redis_link.ts";
import { keysOf } from "../../../src/engines/redis/scripts/script.ts";
import { silentLog } from "../../../src/log.ts";
import { findServer, missing, redis } from "../_servers.ts";

const found = await findServer(redis);

/** The server that tests share. A test touches only its own keys there. */
export const url: string = found?.url ?? "";

/** The options of a test or a suite: it is skipped without a server, and says why. */
export const gate: { readonly skip: string | false } = { skip: found ? false : missing(redis) };
if (found === undefined) console.warn(`skipped: ${missing(redis)}`);

/** Returns a name that no other test and no other run has. */
export function uniqueName(): string {
  return `test-${crypto.randomUUID()}`;
}

/** Opens a connection for commands beside those of the mailbox. */
export function look(at: string = url): { readonly redis: Redis } & AsyncDisposable {
  const client = new Redis(at);
  client.on("error", () => {}); // a test may end the server
  return {
    redis: client,
    [Symbol.asyncDispose]() {
      client.disconnect();
      return Promise.resolve();
    },
  };
}

/** Deletes all keys of a mailbox, its dead letters, and the other queues that tests open beside it. */
export async function cleanUp(name: string, at: string = url): Promise<void> {
  await using behind = look(at);
  // One call for each queue: in a cluster the keys of two queues may be on different servers.
  for (const end of ["", ".dead", ".other", ".cron"]) {
    await behind.redis.unlink(...keysOf(`${name}${end}`));
  }
}

/** Opens the engine of a queue on a connection of its own, which `close` closes. */
export async function openEngine(name: string, detectsOwners = false): Promise<RedisEngine> {
  const options = { clock: systemClock, log: silentLog, callTimeoutMs: 5_000 };
  const link = await openRedisLink(url, options);
  return new RedisEngine(name, link, { maxSize: Infinity, pollIntervalMs: 5_000, detectsOwners });
}

/** Opens a mailbox with a new name for a test. Its disposal closes it and deletes its keys. */
export async function openForTest(
  at: string,
  options: RedisMailboxOptions = {},
): Promise<{ readonly mailbox: RedisMailbox<unknown>; readonly name: string } & AsyncDisposable> {
  const { name = uniqueName() } = options;
  const mailbox = await RedisMailbox.open<unknown>(at, { log: silentLog, ...options, name });
  return {
    mailbox,
    name,
    async [Symbol.asyncDispose]() {
      await mailbox.close();
      await cleanUp(name, at);
    },
  };
}
