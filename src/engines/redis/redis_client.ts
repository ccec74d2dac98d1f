/**
 * The part of a Redis client that a mailbox uses, and what its errors mean. `Redis` and `Cluster` of `ioredis`
 * have the shape of {@linkcode RedisClient}.
 *
 * @module
 */

import type { Clock } from "../../clock.ts";
import { errorText } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Random } from "../../random.ts";

/** A connection for commands. */
export interface RedisClient {
  /** Runs a script by the SHA-1 of its text. */
  evalsha(sha: string, numberOfKeys: number, ...args: (string | number)[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, numberOfKeys: number, ...args: (string | number)[]): Promise<unknown>;
  /** Creates another connection to the same server, with changed client options. */
  duplicate(options?: object): RedisSubscriber;
  /** The options of a client of `ioredis` that matter here. */
  readonly options?: { readonly enableAutoPipelining?: boolean | undefined };
  /** Returns a client of each primary node. Only clients of a cluster have it. */
  nodes?(role: "master"): readonly Pick<RedisClient, "eval" | "evalsha">[];
}

/** A connection for notifications. */
export interface RedisSubscriber {
  /** Subscribes to channels. */
  subscribe(...channels: string[]): Promise<unknown>;
  /** Unsubscribes from channels. */
  unsubscribe(...channels: string[]): Promise<unknown>;
  /** Adds a listener for `message` (channel, text), `ready` (after every connect), `close`, `error` or `end`. */
  // deno-lint-ignore no-explicit-any -- the arguments depend on the event
  on(event: string, listener: (...args: any[]) => void): unknown;
  /** Closes the connection. */
  disconnect(): void;
}

/** Options of a connection that this package opens. */
export interface ConnectionOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** After how many milliseconds a call fails. */
  readonly callTimeoutMs: number;
  /** The source of the jitter of reconnects. */
  readonly random: Random;
}

/** Converts an error of the client to a `MailboxConnectionError`. */
export function connectionError(action: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = textOf(error);
  return new MailboxConnectionError(`Redis failed to ${action}: ${text}${advice(text)}`, {
    cause: withoutCommand(error),
  });
}

function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : errorText(error);
  // ioredis reports a lost connection this way when it may not retry.
  return /max retries per request/.test(text) ? "the connection is lost" : text.replace(/\.$/, "");
}

/** Returns true when the server has no such script: it was restarted, or its scripts were flushed. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

/** Returns true for an error of {@linkcode connectionError} whose cause is a full memory. */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error &&
    /^-?OOM/.test(error.cause.message);
}

/** Removes the command that clients attach to errors: its arguments contain bodies and passwords. */
export function withoutCommand(error: unknown): unknown {
  if (!(error instanceof Error) || !("command" in error)) return error;
  const { name, message, stack } = error;
  return Object.assign(new Error(message), { name, stack });
}

function advice(text: string): string {
  if (/ECONNREFUSED|ENOTFOUND|ETIMEDOUT|closed|writeable|is lost/i.test(text)) {
    return ". Check that the server runs and is reachable; the next call tries again";
  }
  if (/WRONGPASS|NOAUTH|NOPERM/.test(text)) return ". Check the user, the password and the ACL";
  if (/^-?OOM/.test(text)) {
    return ". The server has no memory left and nothing was stored: free memory or raise maxmemory";
  }
  if (/^(MOVED|ASK|CLUSTERDOWN|CROSSSLOT)\b/.test(text)) {
    return ". The server is one node of a cluster: use the URL redis+cluster://host:port, or pass a " +
      "Cluster of ioredis";
  }
  if (/cluster support disabled/.test(text)) {
    return ". The server is not a cluster node: use redis:// or rediss://";
  }
  if (/unknown (redis )?command/i.test(text)) return ". Use Redis 6.2 or later";
  return "";
}
