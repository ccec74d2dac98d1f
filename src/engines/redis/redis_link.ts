/**
 * The connection of the mailboxes on Redis, for other parts of the package that keep something there.
 *
 * @module
 */

import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { Backend, type BackendOptions } from "./_backend.ts";
import type { RedisClient } from "./redis_client.ts";

export { Script } from "./scripts/script.ts";

/** A server, the calls that are made there, and the channels that are heard from there. */
export type RedisLink = Backend;

/** Connects to the server at a URL, or uses a client like that of `ioredis`. */
export async function openRedisLink(
  server: string | RedisClient,
  options: BackendOptions,
): Promise<RedisLink> {
  const known = typeof server === "string"
    ? /^rediss?:\/\/./.test(server)
    : typeof server?.evalsha === "function" && typeof server.duplicate === "function";
  if (!known) {
    throw new InvalidParameterError(
      "Invalid server: expected a URL that begins with redis:// or rediss://, or a client like that " +
        `of ioredis, got ${
          typeof server === "string" ? show(server.replace(/\/\/.*@/, "//…@")) : show(server)
        }`,
    );
  }
  const link = new Backend(server, options);
  await link.open();
  return link;
}
