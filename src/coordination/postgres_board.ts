import { checkInterval } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import type { SqlClient, SqlRow } from "../engines/postgres/client.ts";
import {
  arrayLiteral,
  openPostgresLink,
  type PostgresLink,
} from "../engines/postgres/postgres_link.ts";
import { safeLog } from "../library_log.ts";
import { prepareBoardSchema } from "./_postgres_schema.ts";
import { Board, type BoardOptions } from "./board.ts";
import {
  type BoardEntry,
  type BoardPage,
  type BoardStore,
  detailText,
  parseContent,
  type StoredMember,
} from "./board_store.ts";
import { checkAgentId, type MemberStatus } from "./member_state.ts";

/** Options of {@linkcode openPostgresBoard}. */
export interface PostgresBoardOptions extends BoardOptions {
  /** The name of the board in the schema, 1 to 64 letters, digits, _ or -. @default {"default"} */
  readonly name?: string;
  /** The schema of the table. @default {"lastcall"} */
  readonly schema?: string;
  /** Creates the table and updates it. With `false` it is only checked. @default {true} */
  readonly migrate?: boolean;
  /** How long a call may take before it fails, in milliseconds. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * The maximum number of connections, beside the one that listens. Mailboxes with the same URL and
   * options share them. @default {4}
   */
  readonly maxConnections?: number;
}

/**
 * Opens a board in a PostgreSQL table, shared by the processes of many machines. It takes a URL, or a
 * client of the package `postgres`, which stays open.
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
  new Board(options); // checks the options before connecting
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
  return new Board({ ...options, store: new PostgresStore(link, schema, name) });
}

/** Stores a board in a PostgreSQL table. All times are the server's. */
class PostgresStore implements BoardStore {
  readonly #link: PostgresLink;
  readonly #board: string;
  readonly #table: string;
  readonly #function: string;
  #closed = false;

  constructor(link: PostgresLink, schema: string, board: string) {
    this.#link = link;
    this.#board = board;
    this.#table = `"${schema}".agents`;
    this.#function = `"${schema}".put_agents`;
  }

  async write(entries: readonly BoardEntry[]): Promise<readonly MemberStatus[]> {
    const column = (of: (entry: BoardEntry) => string) => arrayLiteral(entries.map(of));
    const [row] = await this.#link.calls.call(
      "write to the board",
      `select array_to_json(${this.#function}($1::text, $2::text::text[], $3::text::text[],
        $4::text::text[], $5::text::text[]))::text as before`,
      [
        this.#board,
        column(({ agentId }) => agentId),
        column(({ state }) => state),
        column(({ metadata, notice }) => detailText(metadata, notice)),
        column(({ from }) => from.join(" ")),
      ],
    );
    this.#wake();
    return JSON.parse(String(row?.before));
  }

  async touch(agentIds: readonly string[]): Promise<void> {
    await this.#link.calls.call(
      "write to the board",
      `update ${this.#table} set seen_at = clock_timestamp()
        where board = $1::text and agent_id = any($2::text::text[])`,
      [this.#board, arrayLiteral(agentIds)],
    );
  }

  async remove(agentIds: readonly string[]): Promise<void> {
    await this.#link.calls.call(
      "write to the board",
      `delete from ${this.#table} where board = $1::text and agent_id = any($2::text::text[])`,
      [this.#board, arrayLiteral(agentIds)],
    );
    this.#wake();
  }

  async read(agentIds: readonly string[]): Promise<readonly StoredMember[]> {
    const rows = await this.#select("agent_id = any($2::text::text[])", arrayLiteral(agentIds));
    return rows.map(stored);
  }

  async list(since: unknown = 0): Promise<BoardPage> {
    const rows = await this.#select("version > $2::text::bigint", `${since}`);
    // Versions become visible in their order, so no later page misses a write.
    return { members: rows.map(stored), cursor: rows.at(-1)?.version ?? since };
  }

  /** A name that no mailbox can have. */
  get #queue(): string {
    return `#board:${this.#board}`;
  }

  onWake(listener: () => void): () => void {
    return this.#link.wakeUps.add(this.#queue, listener);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#link.letGo();
  }

  #wake(): void {
    this.#link.wake(this.#queue);
  }

  #select(condition: string, parameter: string): Promise<readonly SqlRow[]> {
    return this.#link.calls.call(
      "read the board",
      `select agent_id, state, detail::text as detail, version::text as version,
        (extract(epoch from updated_at) * 1000)::float8 as updated,
        (extract(epoch from clock_timestamp() - seen_at) * 1000)::float8 as age
        from ${this.#table} where board = $1::text and ${condition} order by version`,
      [this.#board, parameter],
    );
  }
}

function stored(row: SqlRow): StoredMember {
  const detail = String(row.detail);
  const content = parseContent(row.state, Math.floor(Number(row.updated)), detail);
  return {
    agentId: String(row.agent_id),
    content,
    raw: content === undefined ? `${row.state} ${detail}` : undefined,
    ageMs: Number(row.age),
  };
}
