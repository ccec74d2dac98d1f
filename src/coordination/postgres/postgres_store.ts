import { arrayLiteral, type PostgresLink } from "../../engines/postgres/postgres_link.ts";
import type { SqlRow } from "../../engines/postgres/client.ts";
import type { AgentStatus } from "../agent_state.ts";
import type { BoardEntry, BoardPage, BoardStore, StoredAgent } from "../board_store.ts";
import { detailText, parseContent } from "../_content.ts";

/** Keeps a board in a PostgreSQL table. Its times are the server's, which all its users share. */
export class PostgresStore implements BoardStore {
  readonly #link: PostgresLink;
  readonly #board: string;
  readonly #table: string;
  readonly #put: string;
  #closed = false;

  constructor(link: PostgresLink, schema: string, board: string) {
    this.#link = link;
    this.#board = board;
    this.#table = `"${schema}".agents`;
    this.#put = `"${schema}".put_agents`;
  }

  async put(entries: readonly BoardEntry[]): Promise<readonly AgentStatus[]> {
    const column = (of: (entry: BoardEntry) => string) => arrayLiteral(entries.map(of));
    const [row] = await this.#link.calls.call(
      "write to the board",
      `select array_to_json(${this.#put}($1::text, $2::text::text[], $3::text::text[],
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

  async read(agentIds: readonly string[]): Promise<readonly StoredAgent[]> {
    const rows = await this.#select("agent_id = any($2::text::text[])", arrayLiteral(agentIds));
    return rows.map(stored);
  }

  async list(since: unknown = 0): Promise<BoardPage> {
    const rows = await this.#select("version > $2::text::bigint", `${since}`);
    // Versions become visible in their order: what is not here yet comes after the last one.
    return { agents: rows.map(stored), cursor: rows.at(-1)?.version ?? since };
  }

  /** No mailbox can have such a name. */
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

function stored(row: SqlRow): StoredAgent {
  const detail = String(row.detail);
  const content = parseContent(row.state, Math.floor(Number(row.updated)), detail);
  return {
    agentId: String(row.agent_id),
    content,
    raw: content === undefined ? `${row.state} ${detail}` : undefined,
    ageMs: Number(row.age),
  };
}
