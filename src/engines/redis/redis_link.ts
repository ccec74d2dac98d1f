/**
 * The Redis connection of the mailboxes, for other parts of the package that store data in Redis.
 *
 * @module
 */

import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { Backend, type BackendOptions } from "./_backend.ts";
import type { RedisClient } from "./redis_client.ts";
import { checkServerUrl } from "./_server_url.ts";

export { Script } from "./scripts/script.ts";

/** A connected server, with its script calls and its notification channels. */
export type RedisLink = Backend;

/** Connects to the server or the cluster at a URL, or uses a client such as that of `ioredis`. */
export async function openRedisLink(
  server: string | RedisClient,
  options: BackendOptions,
): Promise<RedisLink> {
  if (typeof server === "string") {
    checkServerUrl(server);
  } else if (typeof server?.evalsha !== "function" || typeof server.duplicate !== "function") {
    throw new InvalidParameterError(
      `Invalid server: expected a URL or a client like that of ioredis, got ${show(server)}`,
    );
  }
  const link = new Backend(server, options);
  await link.open();
  return link;
}
