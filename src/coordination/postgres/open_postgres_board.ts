import { checkInterval } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import type { SqlClient } from "../../engines/postgres/client.ts";
import { openPostgresLink } from "../../engines/postgres/postgres_link.ts";
import { safeLog } from "../../library_log.ts";
import { checkAgentId } from "../agent_state.ts";
import { Board, type BoardOptions } from "../board.ts";
import { prepareBoardSchema } from "./_board_schema.ts";
import { PostgresStore } from "./postgres_store.ts";

/** Options of {@linkcode openPostgresBoard}. */
export interface PostgresBoardOptions extends BoardOptions {
  /** Which of the boards in the schema, 1 to 64 letters, digits, _ or -. @default {"default"} */
  readonly name?: string;
  /** The schema that holds the table. @default {"lastcall"} */
  readonly schema?: string;
  /** Makes the table and brings it up to date; with false it is only checked. @default {true} */
  readonly migrate?: boolean;
  /** How long a call may take before it fails. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * How many connections are made at the most, beside the one that listens; mailboxes with the same URL
   * and options share them. @default {4}
   */
  readonly maxConnections?: number;
}

/**
 * Opens a board in a PostgreSQL table, shared by the processes of many machines. It takes a URL or a
 * client of the package `postgres`, which is not ended with it.
 *
 * @example
 * ```ts ignore
 * import { openPostgresBoard } from "@lastcall/lastcall/coordination";
 *
 * const board = await openPostgresBoard("postgres://localhost/shop");
 * await board.setState("worker-1", "running");
 * console.log(await board.list());
 * await board.close();
 * ```
 */
export async function openPostgresBoard(
  target: string | SqlClient,
  options: PostgresBoardOptions = {},
): Promise<Board> {
  const { clock = systemClock, schema = "lastcall", migrate = true } = options;
  const name = checkAgentId(options.name ?? "default");
  new Board(options); // checks the options, before anything is connected
  const callTimeoutMs = checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000);
  const maxConnections = options.maxConnections ?? 4;
  const link = await openPostgresLink(
    { target, schema, maxConnections, callTimeoutMs, clock },
    migrate,
    safeLog(options.log),
  );
  try {
    await prepareBoardSchema(link.calls, schema, migrate);
  } catch (error) {
    await link.letGo();
    throw error;
  }
  return new Board(options, new PostgresStore(link, schema, name));
}
