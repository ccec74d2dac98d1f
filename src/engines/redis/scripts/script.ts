import { HANDLES } from "./handles.ts";
import { IDS } from "./ids.ts";
import { LINES } from "./lines.ts";

/**
 * The common start of all scripts. All times are in microseconds by the server's clock. A call that runs
 * after its expiry does nothing: it waited in a buffer while the server was frozen, its caller has timed
 * out, and no worker would receive its messages.
 */
const PRELUDE = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[1]) then return { now } end
-- Formats a time once instead of once per argument.
local function at(time)
  return string.format('%.0f', time)
end
-- pcall, because the script has made its changes: without the permission to publish it must not fail.
local function wake(channel)
  redis.pcall('PUBLISH', channel, '')
end
`;

/** A Lua script. It replies with the server's time and, unless it ran after its expiry, with its results. */
export class Script {
  readonly text: string;
  #sha: Promise<string> | undefined;

  constructor(...parts: readonly string[]) {
    this.text = [PRELUDE, ...parts].join("\n");
  }

  /** Returns the SHA-1 by which the server identifies the script. */
  sha(): Promise<string> {
    return this.#sha ??= sha1(this.text);
  }
}

async function sha1(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-1", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The keys of a queue: the names by which scripts use them, how their own names end, and their types.
 * Messages are numbered in the order in which they were sent; `seq` is such a number, as a text.
 *
 * | key | content |
 * |---|---|
 * | META | `seq`, the last number; `format`, see `_delivery.ts`; `indexed`, see `ids.ts`; `paused`, `limit` and `counts`, see `limits.ts` |
 * | READY | list of new messages in order; most messages are delivered once, from here |
 * | RETURNED | sorted set of other messages that are ready, by rank, see `rankOf` |
 * | DUE | sorted set of delayed and leased messages by the time when they become ready |
 * | MESSAGES | records by number, see `_delivery.ts` |
 * | STATES | `<deliveries> <releases> <receive id>` of messages that were delivered; ready ones have no id. When leases have expired, their number is before the id: `2 0 1 <receive id>` |
 * | CHECKPOINTS | saved checkpoints by number |
 * | IDS | where messages are by id, see `ids.ts` |
 * | TRAITS | what only some messages have: keys, priorities, see `lines.ts` |
 * | BLOCKED | sorted set of messages that wait behind another one with their key, by number |
 * | TIMES | sorted set of remembered ids by the end of their `dedupMs`, and of the messages in DUE that are not leased by the negative of their due time, to count them |
 * | OWNERS | the run id of the server by owner, see `owners.ts` |
 * | WAITING | sorted set of waiting owners, by the end of their wait, see `handover.ts` |
 */
const KEYS = {
  META: ["meta", "hash"],
  READY: ["ready", "list"],
  RETURNED: ["returned", "zset"],
  DUE: ["due", "zset"],
  MESSAGES: ["messages", "hash"],
  STATES: ["state", "hash"],
  CHECKPOINTS: ["progress", "hash"],
  IDS: ["ids", "hash"],
  TRAITS: ["traits", "hash"],
  BLOCKED: ["blocked", "zset"],
  TIMES: ["times", "zset"],
  OWNERS: ["owners", "hash"],
  WAITING: ["waiting", "zset"],
} as const;

type KeyName = keyof typeof KEYS;

const KEY_NAMES = Object.keys(KEYS) as readonly KeyName[];

/** The types of the keys, in the order of {@linkcode keysOf}. */
export const KEY_TYPES: readonly string[] = KEY_NAMES.map((name) => KEYS[name][1]);

/**
 * Returns the keys of a queue. They share a hash tag, so that a cluster stores them in one slot. Dead
 * letters have the tag of their mailbox, so that one script can move a message to them.
 */
export function keysOf(name: string): readonly string[] {
  return KEY_NAMES.map((key) => `${prefixOf(name)}:${KEYS[key][0]}`);
}

/** Returns the channel on which a queue announces new messages. */
export function channelOf(name: string): string {
  return `${prefixOf(name)}:wake`;
}

/** Returns the channel on which a queue announces the ids of messages that were cancelled in flight. */
export function cancelChannelOf(name: string): string {
  return `${prefixOf(name)}:cancel`;
}

/** Returns how the names of the channels of owners begin, see `owners.ts`. Their ids follow. */
export function ownerChannelsOf(name: string): string {
  return `${prefixOf(name)}:owner:`;
}

/** Returns the key that tells for a minute that a call of `cancel` was run, in case its answer is lost. */
export function cancelKeyOf(name: string, callId: string): string {
  return `${prefixOf(name)}:cancel:${callId}`;
}

function prefixOf(name: string): string {
  const [, base, dead] = /^(.*?)((?:\.dead)*)$/s.exec(name)!;
  return `{lastcall:${base}}${dead}`;
}

const COMMON = `
-- Announces that messages are ready. The channel has the name of META with another ending.
local function announce(meta)
  wake(string.sub(meta, 1, -5) .. 'wake')
end

-- A server without memory refuses the write commands of a script only until the script has written. A
-- script that needs little memory calls this first, which deletes nothing, so that it is never refused.
local function allowWithoutMemory()
  redis.call('HDEL', META, '')
end

-- Returns 1 when the server has no memory left and refuses sends. Works only as the first write of a
-- script; the command changes nothing.
local function isOutOfMemory()
  local answer = redis.pcall('ZADD', DUE, 'XX', '0', '')
  return type(answer) == 'table' and string.find(answer.err or '', 'OOM', 1, true) and 1 or 0
end

-- Returns true when no message is ready. Receivers wait only while no message is ready, so only the first
-- ready message needs a notification: a busy queue publishes none. A new due time always needs one,
-- because receivers sleep until the first due time they know.
local function isNoneReady()
  return redis.call('EXISTS', READY, RETURNED) == 0
end

-- Returns how the records of new messages begin: the time in milliseconds.
local function recordStart()
  return at(math.floor(now / 1000)) .. ' '
end

-- Returns the priority of a message and the line of its key, if it has one, by its record.
local function readHead(record)
  local first, last = string.find(record, ' ', 1, true), string.find(record, '\\n', 1, true)
  local head = cjson.decode(string.sub(record, first + 1, last - 1))
  return tostring(head[7] or 0), type(head[6]) == 'string' and 'k' .. head[6] or nil
end

-- Reserves numbers for new messages, and returns the last number before them.
local function reserveNumbers(meta, messages, count)
  local last = redis.call('HINCRBY', meta, 'seq', count)
  if last == count then
    redis.call('HSET', meta, 'format', 1)
    -- Another program may have deleted the counter: a number in use would overwrite its message.
    local used = 0
    for _, seq in ipairs(redis.call('HKEYS', messages)) do used = math.max(used, tonumber(seq)) end
    if used > 0 then
      last = redis.call('HINCRBY', meta, 'seq', used)
    else
      redis.call('HSET', meta, 'indexed', 1)
    end
  end
  return last - count
end

-- Parses the options of a message to send. Returns its delay, how long its id is remembered, its priority and
-- the line of its key.
local function parseOptions(options)
  if string.byte(options) == 107 then return 0, 0, '0', options end -- "k"
  local delay, remember, priority, line = string.match(options, '^(%d+) (%d+) (%d) (.*)$')
  if not delay then return tonumber(options), 0, '0' end
  return tonumber(delay), tonumber(remember), priority, line ~= '' and line or nil
end

-- Deletes remembered ids whose time is over, at most so many.
local function forgetIds(limit)
  local ids = redis.call('ZRANGEBYSCORE', TIMES, 0, at(now), 'LIMIT', 0, limit)
  if #ids > 0 then redis.call('ZREM', TIMES, unpack(ids)) end
end

-- Lets the server delete a queue of replies some time after its last use: its process may have crashed.
local function expireUnused(seconds)
  for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, seconds) end
end

-- Returns the parts of a state. The third is the number of expired leases with a space, or "".
local function parseState(state)
  local deliveries, releases, expiries = string.match(state, '^(%d+) (%d+) (.-)%S*$')
  return deliveries, releases, expiries
end

-- Returns the state of a message that becomes ready. An unsettled lease counts as expired, except that of a message
-- that was handed over and has not arrived.
local function readyState(state)
  if string.find(state, '^1 0 0 .*%-0$') then return '0 0 ' end
  local deliveries, releases, expiries = parseState(state)
  if string.byte(state, -1) ~= 32 then expiries = ((tonumber(expiries) or 0) + 1) .. ' ' end
  return deliveries .. ' ' .. releases .. ' ' .. expiries
end
`;

/** The functions that scripts share, by name. Each uses only those before it. */
const FUNCTIONS: ReadonlyMap<string, string> = new Map(
  [COMMON, IDS, LINES, HANDLES].flatMap((text) => text.trim().split("\n\n")).map((source) => {
    return [/^local function (\w+)/m.exec(source)![1]!, source];
  }),
);

/** A script on the keys of a queue. */
export class QueueScript extends Script {
  /** Which of the keys it uses: indexes in {@linkcode keysOf}. */
  readonly keys: readonly number[];

  /**
   * Adds to `text` the shared functions that it uses, and replaces the names of the keys by `KEYS[<number>]`.
   *
   * A function costs time whenever the script runs, also when it is not called, and more for each local
   * variable that it uses. So the keys are no local variables, and a part between `-- rarely {` and `-- }`, at
   * the end of its block, has the functions that only such parts use.
   */
  constructor(text: string) {
    const parts: string[] = [];
    const body = withFunctions(text, parts)
      .replace(/-- part (\d+)/g, function insert(_, index): string {
        return parts[Number(index)]!.replace(/-- part (\d+)/g, insert);
      })
      .replace(/ *--.*\n/g, "\n");
    const isUsed = (name: KeyName) => new RegExp(`\\b${name}\\b`).test(body);
    const used = KEY_NAMES.filter(isUsed);
    super(body.replace(/\b[A-Z]+\b/g, (word) => {
      const index = used.indexOf(word as KeyName);
      return index < 0 ? word : `KEYS[${index + 1}]`;
    }));
    this.keys = used.map((name) => KEY_NAMES.indexOf(name));
  }
}

/** Prepends the functions that `text` uses. Moves its rare parts to `parts`, and leaves their indexes. */
function withFunctions(text: string, parts: string[]): string {
  const setAside = (source: string) =>
    source.replace(/-- rarely \{\n(.*?)-- \}/gs, (_, part: string) => {
      return `-- part ${parts.push(withFunctions(part, parts)) - 1}`;
    });
  let body = setAside(text);
  for (const [name, source] of [...FUNCTIONS].reverse()) {
    if (new RegExp(`\\b${name}\\(`).test(body)) body = `${setAside(source)}\n${body}`;
  }
  return body;
}
