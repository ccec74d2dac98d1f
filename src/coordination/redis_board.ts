import { checkInterval } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import type { RedisClient } from "../engines/redis/redis_client.ts";
import { openRedisLink, type RedisLink, Script } from "../engines/redis/redis_link.ts";
import { safeLog } from "../library_log.ts";
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

/** Options of {@linkcode openRedisBoard}. */
export interface RedisBoardOptions extends BoardOptions {
  /** The name of the board on the server, 1 to 64 letters, digits, _ or -. @default {"default"} */
  readonly name?: string;
  /** How long a call may take, in milliseconds. Then it fails, and has no effect later. @default {5_000} */
  readonly callTimeoutMs?: number;
}

/**
 * Opens a board on a Redis server, shared by the processes of many machines. It takes a URL, or a client
 * like that of `ioredis`. Such a client can be shared with mailboxes, and stays open.
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
  new Board(options); // checks the options before connecting
  const link = await openRedisLink(server, {
    clock,
    log: safeLog(options.log),
    callTimeoutMs: checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000),
  });
  return new Board({ ...options, store: new RedisStore(link, name) });
}

/**
 * The keys of a board are a hash of records, a hash of the times when each member was last alive, and a
 * sorted set of members by the version of their last write. A record is `<state> <milliseconds> <JSON>`.
 * The scripts read the state and write the time. They treat the JSON as opaque.
 */
const BOARD = `
local RECORDS, SEEN, VERSIONS, VERSION = unpack(KEYS)
local function stateOf(record)
  if not record then return 'unknown' end
  local state, detail = string.match(record, '^([%l_]+) %d+ (.*)$')
  if not state or not pcall(cjson.decode, detail) then return 'corrupt' end
  if state == 'running' or state == 'shutting_down' or state == 'shutdown_complete' then
    return state
  end
  return 'corrupt'
end
`;

/** Writes the allowed entries. For each: id, state, detail, and the allowed statuses before. */
const WRITE = new Script(
  BOARD,
  `
local before = {}
local wrote = false
for i = 3, #ARGV, 4 do
  local id = ARGV[i]
  local was = stateOf(redis.call('HGET', RECORDS, id))
  before[#before + 1] = was
  if string.find(ARGV[i + 3], ' ' .. was .. ' ', 1, true) then
    local record = ARGV[i + 1] .. ' ' .. at(math.floor(now / 1000)) .. ' ' .. ARGV[i + 2]
    redis.call('HSET', RECORDS, id, record)
    redis.call('HSET', SEEN, id, at(now))
    redis.call('ZADD', VERSIONS, redis.call('INCR', VERSION), id)
    wrote = true
  end
end
if wrote then wake(ARGV[2]) end
return { now, before }
`,
);

const TOUCH = new Script(
  BOARD,
  `
for i = 2, #ARGV do
  if redis.call('HEXISTS', RECORDS, ARGV[i]) == 1 then redis.call('HSET', SEEN, ARGV[i], at(now)) end
end
return { now, 1 }
`,
);

const REMOVE = new Script(
  BOARD,
  `
for i = 3, #ARGV do
  redis.call('HDEL', RECORDS, ARGV[i])
  redis.call('HDEL', SEEN, ARGV[i])
  redis.call('ZREM', VERSIONS, ARGV[i])
end
wake(ARGV[2])
return { now, 1 }
`,
);

/** Returns id, record and the time when last alive, for each id that has a record. */
const RECORDS_OF = `
local function recordsOf(ids)
  local found = {}
  for _, id in ipairs(ids) do
    local record = redis.call('HGET', RECORDS, id)
    if record then
      found[#found + 1] = id
      found[#found + 1] = record
      found[#found + 1] = redis.call('HGET', SEEN, id) or '0'
    end
  end
  return found
end
`;

const READ = new Script(
  BOARD,
  RECORDS_OF,
  `
local ids = {}
for i = 2, #ARGV do ids[#ids + 1] = ARGV[i] end
return { now, recordsOf(ids) }
`,
);

/** Lists the members written after a version, or all members when it is empty. */
const LIST = new Script(
  BOARD,
  RECORDS_OF,
  `
local ids = ARGV[2] == '' and redis.call('HKEYS', RECORDS) or
  redis.call('ZRANGEBYSCORE', VERSIONS, '(' .. ARGV[2], '+inf')
return { now, recordsOf(ids), redis.call('GET', VERSION) or '0' }
`,
);

/** Stores a board on a Redis server. All times are the server's. */
class RedisStore implements BoardStore {
  readonly #link: RedisLink;
  readonly #keys: readonly string[];
  readonly #channel: string;

  /** The keys share a hash tag, so that they are on one node of a cluster. */
  constructor(link: RedisLink, name: string) {
    const at = (part: string) => `{lastcall.board:${name}}:${part}`;
    this.#link = link;
    this.#keys = ["records", "seen", "versions", "version"].map(at);
    this.#channel = at("wake");
  }

  async write(entries: readonly BoardEntry[]): Promise<readonly MemberStatus[]> {
    const args = entries.flatMap(({ agentId, state, metadata, notice, from }) => {
      return [agentId, state, detailText(metadata, notice), ` ${from.join(" ")} `];
    });
    const [, before] = await this.#run("write to the board", WRITE, [this.#channel, ...args]);
    return before as MemberStatus[];
  }

  async touch(agentIds: readonly string[]): Promise<void> {
    await this.#run("write to the board", TOUCH, agentIds);
  }

  async remove(agentIds: readonly string[]): Promise<void> {
    await this.#run("write to the board", REMOVE, [this.#channel, ...agentIds]);
  }

  async read(agentIds: readonly string[]): Promise<readonly StoredMember[]> {
    const [now, found] = await this.#run("read the board", READ, agentIds);
    return stored(now as number, found as string[]);
  }

  async list(since: unknown = ""): Promise<BoardPage> {
    const [now, found, cursor] = await this.#run("read the board", LIST, [since as string]);
    return { members: stored(now as number, found as string[]), cursor };
  }

  onWake(listener: () => void): () => void {
    return this.#link.channels.listen(this.#channel, () => listener()); // the text is no agent
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

function stored(nowUs: number, found: readonly string[]): readonly StoredMember[] {
  const members: StoredMember[] = [];
  for (let i = 0; i < found.length; i += 3) {
    const [agentId, record, seenUs] = found.slice(i, i + 3) as [string, string, string];
    const [, state, updatedAt, detail = ""] = /^([a-z_]+) (\d+) (.*)$/s.exec(record) ?? [];
    const content = parseContent(state, Number(updatedAt), detail);
    const ageMs = (nowUs - Number(seenUs)) / 1_000;
    members.push({ agentId, content, raw: content === undefined ? record : undefined, ageMs });
  }
  return members;
}
