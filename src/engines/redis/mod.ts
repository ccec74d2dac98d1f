/**
 * Mailboxes on a Redis server.
 *
 * @module
 */

export type { RedisClient, RedisSubscriber } from "./redis_client.ts";
export { RedisMailbox, type RedisMailboxOptions } from "./redis_mailbox.ts";
