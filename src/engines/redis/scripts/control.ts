import { QueueScript, Script } from "./script.ts";

/** Replies with the number of messages. */
export const COUNT: QueueScript = new QueueScript(`return { now, redis.call('HLEN', MESSAGES) }`);

/** Deletes everything but META: a number used twice would make old receipt handles valid again. */
export const PURGE: QueueScript = new QueueScript(`
local count = redis.call('HLEN', MESSAGES)
redis.call('UNLINK', READY, RETURNED, DUE, MESSAGES, STATES, CHECKPOINTS, IDS, TRAITS, BLOCKED, TIMES)
return { now, count }
`);

/** Deletes all keys. */
export const DROP: Script = new Script(`
redis.call('UNLINK', unpack(KEYS))
return { now, 1 }
`);

/**
 * Replies with a page of the names of queues on one server. ARGV: valid until, cursor. Dead letters have
 * another prefix.
 */
export const QUEUES: Script = new Script(`
local page = redis.call('SCAN', ARGV[2], 'MATCH', '{lastcall:*}:meta', 'COUNT', '1000')
local names = {}
for i, key in ipairs(page[2]) do names[i] = string.sub(key, 11, -7) end
return { now, page[1], names }
`);

/** The functions that describe a message in a reply. */
export const DESCRIBE: string = `
-- Returns where a message is. A delay or a lease that has ended does not count.
local function placeOf(seq, state)
  local due = redis.call('ZSCORE', DUE, seq)
  if not due or tonumber(due) <= now then return 'waiting' end
  return state and string.sub(state, -1) ~= ' ' and 'inFlight' or 'delayed'
end

-- Appends five fields of a message to a reply.
local function describe(reply, seq, record)
  local state = redis.call('HGET', STATES, seq)
  reply[#reply + 1] = seq
  reply[#reply + 1] = tonumber(string.match(state or '0', '^%d+'))
  reply[#reply + 1] = record
  reply[#reply + 1] = redis.call('HGET', CHECKPOINTS, seq)
  reply[#reply + 1] = placeOf(seq, state)
end
`;

/**
 * Replies with the oldest messages after the first ones. ARGV: valid until, max, how many to skip.
 *
 * No key has all messages in the order of their numbers. But READY, BLOCKED and each priority of RETURNED do, so
 * a binary search finds the numbers between which the page is, without reading what is before it. Only the
 * numbers of hidden and of cancelled messages have to be sorted.
 */
export const PEEK: QueueScript = new QueueScript(`
${DESCRIBE}
local step = 10000000000000
local function sorted(seqs)
  for i, seq in ipairs(seqs) do seqs[i] = tonumber(seq) end
  table.sort(seqs)
  return seqs
end
local hidden, cancelled = sorted(redis.call('ZRANGE', DUE, 0, -1)), {}
local lastPriority = redis.call('EXISTS', TRAITS) == 1 and 9 or 0
if redis.call('HEXISTS', TRAITS, 'c') == 1 then
  for _, field in ipairs(redis.call('HKEYS', TRAITS)) do
    cancelled[#cancelled + 1] = string.match(field, '^c(%d+)$')
  end
  sorted(cancelled)
end

-- Returns how many of the ascending numbers are below a limit.
local function countBelow(limit, size, numberAt)
  local low, high = 0, size
  while low < high do
    local middle = math.floor((low + high) / 2)
    if numberAt(middle) < limit then low = middle + 1 else high = middle end
  end
  return low
end
local length = redis.call('LLEN', READY)
local function readyBelow(limit)
  return countBelow(limit, length, function (i) return tonumber(redis.call('LINDEX', READY, i)) end)
end
local function amongBelow(numbers, limit)
  return countBelow(limit, #numbers, function (i) return numbers[i + 1] end)
end

-- Returns the number below which there are so many messages.
local function boundOf(count)
  return countBelow(count, step, function (limit)
    local total = readyBelow(limit) + amongBelow(hidden, limit) - amongBelow(cancelled, limit) +
      redis.call('ZCOUNT', BLOCKED, '-inf', '(' .. at(limit))
    for priority = 0, lastPriority do
      local first = -priority * step
      total = total + redis.call('ZCOUNT', RETURNED, at(first), '(' .. at(first + limit))
    end
    return total
  end)
end

local max, skip, page = tonumber(ARGV[2]), tonumber(ARGV[3]), {}
local first, last = skip > 0 and boundOf(skip) or 0, boundOf(skip + max)
local function add(more)
  for _, seq in ipairs(more) do page[#page + 1] = tonumber(seq) end
end
local readyFirst, readyEnd = readyBelow(first), readyBelow(last)
if readyEnd > 0 then add(redis.call('LRANGE', READY, readyFirst, readyEnd - 1)) end
add(redis.call('ZRANGEBYSCORE', BLOCKED, at(first), '(' .. at(last)))
for priority = 0, lastPriority do
  local start = -priority * step
  add(redis.call('ZRANGEBYSCORE', RETURNED, at(start + first), '(' .. at(start + last)))
end
for i = amongBelow(hidden, first) + 1, amongBelow(hidden, last) do page[#page + 1] = hidden[i] end
table.sort(page)
local reply = { now, 0 }
for _, number in ipairs(page) do
  local seq = at(number)
  local record = redis.call('HGET', MESSAGES, seq)
  if record then describe(reply, seq, record) end
end
return reply
`);

/**
 * Replies with the numbers of waiting, delayed and leased messages, the microseconds until a pause ends (-1: when
 * it is resumed, 0: there is none), the milliseconds since the oldest waiting message was sent (-1: none waits),
 * and the rate limit as META has it, or "". Messages that version 0.1 has delayed count as leased.
 */
export const STATS: QueueScript = new QueueScript(`
-- Adds the numbers of messages among which the oldest waiting one is. READY and BLOCKED may have cancelled
-- messages.
local function addOldest(seqs)
  local function add(more)
    for _, seq in ipairs(more) do seqs[#seqs + 1] = tonumber(seq) end
  end
  local cancelled = math.min(redis.call('HGET', TRAITS, 'c') or 0, 10000)
  add(redis.call('LRANGE', READY, 0, cancelled))
  -- RETURNED is in order within a priority, each of which has a range of ranks.
  local step = 10000000000000
  for priority = 0, redis.call('EXISTS', TRAITS) == 1 and 9 or 0 do
    local first, last = at(-priority * step), '(' .. at((1 - priority) * step)
    add(redis.call('ZRANGEBYSCORE', RETURNED, first, last, 'LIMIT', '0', '1'))
  end
  add(redis.call('ZRANGE', BLOCKED, 0, cancelled))
end
local over = redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '10000')
local ended = redis.call('ZCOUNT', DUE, '-inf', at(now))
local hidden = redis.call('ZCARD', DUE) - ended
local delayed = math.min(hidden, redis.call('ZCOUNT', TIMES, '-inf', '(-' .. at(now)))
local waiting = math.max(0, redis.call('HLEN', MESSAGES) - hidden)
local oldest = -1
if waiting > 0 then
  for i, seq in ipairs(over) do over[i] = tonumber(seq) end
  addOldest(over)
  table.sort(over)
  for _, seq in ipairs(over) do
    local record = redis.call('HGET', MESSAGES, at(seq))
    if record then
      oldest = math.max(0, math.floor(now / 1000) - tonumber(string.match(record, '^%d+')))
      break
    end
  end
end
local paused, limit = unpack(redis.call('HMGET', META, 'paused', 'limit'))
local left = paused == '1' and -1 or math.max(0, (paused or 0) - now)
return { now, waiting, delayed, hidden - delayed, left, oldest, limit or '' }
`);
