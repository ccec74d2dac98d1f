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
const PARTS = ["meta", "ready", "returned", "due", "messages", "state", "progress", "ids"] as const;

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
 * | META | `seq`, the last number, and `format`, which is 1 |
 * | READY | list of new messages in order; most messages are delivered once, from here |
 * | RETURNED | sorted set of messages that are ready again, and of delayed ones that became due |
 * | DUE | sorted set of delayed and leased messages by the time when they become ready |
 * | MESSAGES | records by number, see `_delivery.ts` |
 * | STATES | `<deliveries> <releases> <receive id>` of messages that were delivered; ready ones have no id |
 * | CHECKPOINTS | saved checkpoints by number |
 * | IDS | numbers by chosen id |
 */
const QUEUE = `
local META, READY, RETURNED, DUE, MESSAGES, STATES, CHECKPOINTS, IDS = unpack(KEYS)

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

local function parseState(state)
  local deliveries, releases = string.match(state, '^(%d+) (%d+) ')
  return deliveries, releases
end

-- Finds the deliveries whose receipt handles are valid. The argument is JSON: a list of receives, each with
-- its id and the numbers of its messages. Only unexpired leases can settle, even when no other worker has
-- received the message since. Ready messages have no receive id, so the ends of the leases are read only
-- when some lease has expired.
--
-- The first result is 1 when all handles are valid, otherwise a list with 1 (valid), 0 (expired) or 2 (the
-- message is gone) for each. The other results are the numbers and the states of the valid ones.
local function checkHandles(handles)
  local seqs, receiveIds = {}, {}
  for _, receive in ipairs(cjson.decode(handles)) do
    for i = 2, #receive do
      seqs[#seqs + 1] = receive[i]
      receiveIds[#seqs] = receive[1]
    end
  end
  local states = redis.call('HMGET', STATES, unpack(seqs))
  local ends = #redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1') > 0
    and redis.call('ZMSCORE', DUE, unpack(seqs))
  local results, valid, validStates, seen = {}, {}, {}, {}
  for i, seq in ipairs(seqs) do
    local receiveId, state = receiveIds[i], states[i]
    local matches = state and string.sub(state, -#receiveId - 1) == ' ' .. receiveId
    if matches and not seen[seq] and (not ends or ends[i] and tonumber(ends[i]) > now) then
      seen[seq] = true
      valid[#valid + 1] = seq
      validStates[#valid] = state
      results[i] = 1
    else
      results[i] = redis.call('HEXISTS', MESSAGES, seq) == 1 and 0 or 2
    end
  end
  return #valid == #seqs and 1 or results, valid, validStates
end

local function deleteMessages(seqs)
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('HDEL', STATES, unpack(seqs))
  redis.call('HDEL', MESSAGES, unpack(seqs))
  if redis.call('EXISTS', CHECKPOINTS) == 1 then redis.call('HDEL', CHECKPOINTS, unpack(seqs)) end
end

-- Deletes the messages with valid handles and frees their ids: pairs of number and id from ARGV[first].
local function acknowledge(handles, first)
  local results, seqs = checkHandles(handles)
  if #seqs > 0 then deleteMessages(seqs) end
  if #ARGV >= first then
    local deleted = {}
    for _, seq in ipairs(seqs) do deleted[seq] = true end
    for i = first, #ARGV, 2 do
      if deleted[ARGV[i]] then redis.call('HDEL', IDS, ARGV[i + 1]) end
    end
  end
  return results
end

-- Makes messages ready again, in the order of their numbers.
local function makeReady(seqs)
  local places = {}
  for _, seq in ipairs(seqs) do
    places[#places + 1] = seq
    places[#places + 1] = seq
  end
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('ZADD', RETURNED, unpack(places))
end
`;

/** Returns a script on the keys of a queue. */
export function queueScript(text: string): Script {
  return new Script(QUEUE, text);
}
