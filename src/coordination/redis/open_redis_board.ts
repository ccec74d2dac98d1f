import { checkInterval } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import type { RedisClient } from "../../engines/redis/redis_client.ts";
import { openRedisLink } from "../../engines/redis/redis_link.ts";
import { safeLog } from "../../library_log.ts";
import { checkAgentId } from "../agent_state.ts";
import { Board, type BoardOptions } from "../board.ts";
import { RedisStore } from "./redis_store.ts";

/** Options of {@linkcode openRedisBoard}. */
export interface RedisBoardOptions extends BoardOptions {
  /** Which of the boards on the server, 1 to 64 letters, digits, _ or -. @default {"default"} */
  readonly name?: string;
  /** No call takes longer than this; it fails then, and has no effect later. @default {5_000} */
  readonly callTimeoutMs?: number;
}

/**
 * Opens a board on a Redis server, shared by the processes of many machines. It takes a URL or a client
 * like that of `ioredis`, which is not closed with it and which mailboxes may share.
 *
 * @example
 * ```ts ignore
 * import { openRedisBoard } from "@lastcall/lastcall/coordination";
 *
 * const board = await openRedisBoard("redis://localhost");
 * const stop = board.watch((changes) => console.log(changes));
 * await board.setState("worker-1", "running");
 * stop();
 * await board.close();
 * ```
 */
export async function openRedisBoard(
  server: string | RedisClient,
  options: RedisBoardOptions = {},
): Promise<Board> {
  const { clock = systemClock } = options;
  const name = checkAgentId(options.name ?? "default");
  new Board(options); // checks the options, before anything is connected
  const link = await openRedisLink(server, {
    clock,
    log: safeLog(options.log),
    callTimeoutMs: checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000),
  });
  return new Board(options, new RedisStore(link, name));
}
