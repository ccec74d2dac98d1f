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

/** The parts of a queue that have a key, in the order in which the scripts expect the keys. */
const PARTS = [
  ...["meta", "ready", "returned", "due", "messages", "state", "progress", "ids"],
  ...["traits", "lines", "blocked", "delayed", "remembered", "cancelled"],
] as const;

/** The types of the keys, in the same order. */
export const KEY_TYPES: readonly string[] = [
  ...["hash", "list", "zset", "zset", "hash", "hash", "hash", "hash"],
  ...["hash", "hash", "zset", "zset", "zset", "set"],
];

/**
 * Returns the keys of a queue. They share a hash tag, so that a cluster stores them in one slot. Dead
 * letters have the tag of their mailbox, so that one script can move a message to them.
 */
export function keysOf(name: string): readonly string[] {
  return PARTS.map((part) => `${prefixOf(name)}:${part}`);
}

/** Returns the channel on which a queue announces new messages. */
export function channelOf(name: string): string {
  return `${prefixOf(name)}:wake`;
}

/** Returns the channel on which a queue announces the ids of messages that were cancelled in flight. */
export function cancelChannelOf(name: string): string {
  return `${prefixOf(name)}:cancel`;
}

/** Returns the key that tells for a minute that a call of `cancel` was run, in case its answer is lost. */
export function cancelKeyOf(name: string, callId: string): string {
  return `${prefixOf(name)}:cancel:${callId}`;
}

function prefixOf(name: string): string {
  const [, base, dead] = /^(.*?)((?:\.dead)*)$/s.exec(name)!;
  return `{lastcall:${base}}${dead}`;
}

/**
 * The keys of a queue, and the functions that its scripts share. Messages are numbered in the order in which
 * they were sent; `seq` is such a number, as a text.
 *
 * | key | content |
 * |---|---|
 * | META | `seq`, the last number; `format`, see `_delivery.ts`; `paused` while the queue is |
 * | READY | list of new messages in order; most messages are delivered once, from here |
 * | RETURNED | sorted set of other messages that are ready, by rank: see `rankOf` |
 * | DUE | sorted set of delayed and leased messages by the time when they become ready |
 * | MESSAGES | records by number, see `_delivery.ts` |
 * | STATES | `<deliveries> <releases> <receive id>` of messages that were delivered; ready ones have no id |
 * | CHECKPOINTS | saved checkpoints by number |
 * | IDS | numbers by id, see `indexOf` in `_delivery.ts` |
 * | TRAITS | `<priority> <key>` of messages that have one of them, by number |
 * | LINES | the lines of keys, see `lines.ts` |
 * | BLOCKED | sorted set of messages that wait behind another one with their key, by number |
 * | DELAYED | the part of DUE that is not leased, for counting |
 * | REMEMBERED | sorted set of ids by the end of their `dedupMs` |
 * | CANCELLED | set of messages that were cancelled while in READY, where deleting one is slow |
 */
const QUEUE = `
local META, READY, RETURNED, DUE, MESSAGES, STATES, CHECKPOINTS, IDS, TRAITS, LINES, BLOCKED, DELAYED,
  REMEMBERED, CANCELLED = unpack(KEYS)

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

local function formatRecord(head, body)
  return string.format('%.0f ', math.floor(now / 1000)) .. head .. '\\n' .. body
end

-- Reserves numbers for new messages, and returns the last number before them.
local function reserveNumbers(meta, messages, count)
  local last = redis.call('HINCRBY', meta, 'seq', count)
  if last == count then
    redis.call('HSET', meta, 'format', 1)
    -- Another program may have deleted the counter: a number in use would overwrite its message.
    local used = 0
    for _, seq in ipairs(redis.call('HKEYS', messages)) do used = math.max(used, tonumber(seq)) end
    if used > 0 then last = redis.call('HINCRBY', meta, 'seq', used) end
  end
  return last - count
end

-- Deletes ids from REMEMBERED whose time is over, at most so many.
local function forgetIds(limit)
  local over = redis.call('ZCOUNT', REMEMBERED, '-inf', at(now))
  if over > 0 then redis.call('ZREMRANGEBYRANK', REMEMBERED, 0, math.min(over, limit) - 1) end
end

-- Lets the server delete a queue of replies some time after its last use: its process may have crashed.
local function expireUnused(seconds)
  if seconds == '0' then return end
  for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, seconds) end
end

local function parseState(state)
  local deliveries, releases = string.match(state, '^(%d+) (%d+) ')
  return deliveries, releases
end
`;

/** Returns a script on the keys of a queue. */
export function queueScript(...parts: readonly string[]): Script {
  return new Script(QUEUE, LINES, ...parts);
}
