import type { RedisLink, Script } from "../../engines/redis/redis_link.ts";
import type { AgentStatus } from "../agent_state.ts";
import type { BoardEntry, BoardPage, BoardStore, StoredAgent } from "../board_store.ts";
import { detailText, parseContent } from "../_content.ts";
import { LIST, PUT, READ, REMOVE, TOUCH } from "./_scripts.ts";

/** Keeps a board on a Redis server. Its times are the server's, which all its users share. */
export class RedisStore implements BoardStore {
  readonly #link: RedisLink;
  readonly #keys: readonly string[];
  readonly #channel: string;

  /** The keys share a hash tag, so that a cluster has them in one place. */
  constructor(link: RedisLink, name: string) {
    const at = (part: string) => `{lastcall.board:${name}}:${part}`;
    this.#link = link;
    this.#keys = ["records", "seen", "versions", "version"].map(at);
    this.#channel = at("wake");
  }

  async put(entries: readonly BoardEntry[]): Promise<readonly AgentStatus[]> {
    const args = entries.flatMap(({ agentId, state, metadata, notice, from }) => {
      return [agentId, state, detailText(metadata, notice), ` ${from.join(" ")} `];
    });
    const [, before] = await this.#run("write to the board", PUT, [this.#channel, ...args]);
    return before as AgentStatus[];
  }

  async touch(agentIds: readonly string[]): Promise<void> {
    await this.#run("write to the board", TOUCH, agentIds);
  }

  async remove(agentIds: readonly string[]): Promise<void> {
    await this.#run("write to the board", REMOVE, [this.#channel, ...agentIds]);
  }

  async read(agentIds: readonly string[]): Promise<readonly StoredAgent[]> {
    const [now, found] = await this.#run("read the board", READ, agentIds);
    return stored(now as number, found as string[]);
  }

  async list(since: unknown = ""): Promise<BoardPage> {
    const [now, found, cursor] = await this.#run("read the board", LIST, [since as string]);
    return { agents: stored(now as number, found as string[]), cursor };
  }

  onWake(listener: () => void): () => void {
    return this.#link.channels.listen(this.#channel, listener);
  }

  async close(): Promise<void> {
    if (this.#link.closed) return;
    await this.#link.settled();
    await this.#link.close();
  }

  #run(what: string, script: Script, args: readonly string[]): Promise<unknown[]> {
    return this.#link.run(what, script, this.#keys, args);
  }
}

function stored(nowUs: number, found: readonly string[]): readonly StoredAgent[] {
  const agents: StoredAgent[] = [];
  for (let i = 0; i < found.length; i += 3) {
    const [agentId, record, seenUs] = found.slice(i, i + 3) as [string, string, string];
    const [, state, updatedAt, detail = ""] = /^([a-z_]+) (\d+) (.*)$/s.exec(record) ?? [];
    const content = parseContent(state, Number(updatedAt), detail);
    const ageMs = (nowUs - Number(seenUs)) / 1_000;
    agents.push({ agentId, content, raw: content === undefined ? record : undefined, ageMs });
  }
  return agents;
}
