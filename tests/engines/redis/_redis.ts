import { Redis } from "ioredis";
import { keysOf } from "../../../src/engines/redis/_keys.ts";
import { RedisMailbox, type RedisMailboxOptions } from "../../../src/engines/redis/mod.ts";
import { silentLog } from "../../../src/log.ts";
import { findServer, missing, redis } from "../_servers.ts";

const found = await findServer(redis);

/** The server that tests share. Nothing is done there but on keys of the test's own. */
export const url: string = found?.url ?? "";

/** Options of a test or a suite: skipped, and why, where there is no server. */
export const gate: { readonly skip: string | false } = { skip: found ? false : missing(redis) };
if (found === undefined) console.warn(`skipped: ${missing(redis)}`);

/** A name that no other test and no other run has. */
export function uniqueName(): string {
  return `test-${crypto.randomUUID()}`;
}

/** A connection to look behind the scenes. */
export function look(at: string = url): { readonly redis: Redis } & AsyncDisposable {
  const client = new Redis(at);
  client.on("error", () => {}); // a test may have ended the server
  return {
    redis: client,
    [Symbol.asyncDispose]() {
      client.disconnect();
      return Promise.resolve();
    },
  };
}

/** Removes everything that a mailbox of this name has on the server. */
export async function cleanUp(name: string, at: string = url): Promise<void> {
  await using behind = look(at);
  await behind.redis.unlink(...keysOf(name), ...keysOf(`${name}.dead`));
}

/** Opens a mailbox of a new name for a test, and removes it with all it has. */
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
