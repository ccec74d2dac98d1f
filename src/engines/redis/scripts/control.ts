import { queueScript, Script } from "./script.ts";

/** Replies with the number of messages. */
export const COUNT: Script = queueScript(`return { now, redis.call('HLEN', MESSAGES) }`);

/** Deletes everything but META: a number used twice would make old receipt handles valid again. */
export const PURGE: Script = queueScript(`
local count = redis.call('HLEN', MESSAGES)
redis.call('UNLINK', unpack(KEYS, 2))
return { now, count }
`);

/** Deletes all keys. */
export const DROP: Script = queueScript(`
redis.call('UNLINK', unpack(KEYS))
return { now, 1 }
`);

/** Stops or continues the deliveries. ARGV: valid until, 1 or 0. */
export const PAUSE: Script = queueScript(`
allowWithoutMemory()
if ARGV[2] == '1' then
  redis.call('HSET', META, 'paused', 1)
else
  redis.call('HDEL', META, 'paused')
  announce(META)
end
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

const DESCRIBE = `
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

const OLDEST = `
-- Returns the numbers of messages among which the oldest waiting ones are, at least max of them if there are
-- so many. READY may have cancelled messages.
local function oldestWaiting(max)
  local seqs = {}
  local function add(more)
    for _, seq in ipairs(more) do seqs[#seqs + 1] = seq end
  end
  add(redis.call('LRANGE', READY, 0, math.min(redis.call('SCARD', CANCELLED), 10000) + max - 1))
  -- RETURNED is in order within a priority, each of which has a range of ranks.
  local step = 10000000000000
  for priority = 0, redis.call('EXISTS', TRAITS) == 1 and 9 or 0 do
    local first, last = at(-priority * step), '(' .. at((1 - priority) * step)
    add(redis.call('ZRANGEBYSCORE', RETURNED, first, last, 'LIMIT', '0', max))
  end
  add(redis.call('ZRANGE', BLOCKED, 0, max - 1))
  return seqs
end

local function isOlder(a, b)
  return tonumber(a) < tonumber(b)
end
`;

/**
 * Replies with the oldest messages. ARGV: valid until, max. Hidden messages are sorted by due time, so of
 * more than 10 000 it considers only those that are due first.
 */
export const PEEK: Script = queueScript(
  DESCRIBE,
  OLDEST,
  `
local max = tonumber(ARGV[2])
local seqs = oldestWaiting(max)
for _, seq in ipairs(redis.call('ZRANGE', DUE, 0, 9999)) do seqs[#seqs + 1] = seq end
table.sort(seqs, isOlder)
local reply = { now, 0 }
for _, seq in ipairs(seqs) do
  if #reply >= max * 5 + 2 then break end
  local record = redis.call('HGET', MESSAGES, seq)
  if record then describe(reply, seq, record) end
end
return reply
`,
);

/**
 * Replies with the numbers of waiting, delayed and leased messages, whether the queue is paused, and the
 * milliseconds since the oldest waiting message was sent (-1: none waits). Messages that version 0.1 has
 * delayed count as leased.
 */
export const STATS: Script = queueScript(
  OLDEST,
  `
local over = redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '10000')
local ended = redis.call('ZCOUNT', DUE, '-inf', at(now))
local hidden = redis.call('ZCARD', DUE) - ended
local delayed = math.min(hidden, redis.call('ZCOUNT', DELAYED, '(' .. at(now), '+inf'))
local waiting = redis.call('LLEN', READY) - redis.call('SCARD', CANCELLED)
  + redis.call('ZCARD', RETURNED) + redis.call('ZCARD', BLOCKED) + ended
local oldest = -1
if waiting > 0 then
  local seqs = oldestWaiting(1)
  for _, seq in ipairs(over) do seqs[#seqs + 1] = seq end
  table.sort(seqs, isOlder)
  for _, seq in ipairs(seqs) do
    local record = redis.call('HGET', MESSAGES, seq)
    if record then
      oldest = math.max(0, math.floor(now / 1000) - tonumber(string.match(record, '^%d+')))
      break
    end
  end
end
return { now, waiting, delayed, hidden - delayed, redis.call('HEXISTS', META, 'paused'), oldest }
`,
);

const LOCATE = `
-- Returns true when the record of a message has the id. ARGV[2] is how its head begins.
local function hasId(record)
  local space = string.find(record, ' ', 1, true)
  return string.sub(record, space + 1, space + #ARGV[2]) == ARGV[2]
end

-- Finds a message by its number in ARGV[3], if any, or by its id as it may be in IDS, from ARGV[4] on.
-- Returns its number and its record.
local function locate()
  local seqs = ARGV[3] ~= '' and { ARGV[3] } or redis.call('HMGET', IDS, unpack(ARGV, 4))
  for _, seq in ipairs(seqs) do
    local record = seq and redis.call('HGET', MESSAGES, seq)
    if record and hasId(record) then return seq, record end
  end
end

-- Returns -1 when some messages are not in IDS: version 0.1 sent them, or two dead letters have the same id.
local function missing()
  return ARGV[3] == '' and redis.call('HLEN', IDS) < redis.call('HLEN', MESSAGES) and -1 or 0
end
`;

/**
 * Replies with 1 and a message, with 0 when there is none, or with -1 when SEARCH may find it. ARGV: valid
 * until, how the head of the message begins, its number or "", and its id as it may be in IDS: chosen, generated.
 */
export const FIND: Script = queueScript(
  DESCRIBE,
  LOCATE,
  `
local seq, record = locate()
if not seq then return { now, missing() } end
local reply = { now, 1 }
describe(reply, seq, record)
return reply
`,
);

/**
 * Searches a part of all messages for an id. ARGV: valid until, how the head of the message begins, cursor.
 * Replies with the next cursor, and with the number of the message if it was found.
 */
export const SEARCH: Script = queueScript(
  LOCATE,
  `
local page = redis.call('HSCAN', MESSAGES, ARGV[3], 'COUNT', '100')
for i = 1, #page[2], 2 do
  if hasId(page[2][i + 1]) then return { now, '0', page[2][i] } end
end
return { now, page[1] }
`,
);

/**
 * Deletes a message in any state. ARGV: as for FIND. Replies with 1 when it deleted one, or when the last key
 * tells that an earlier attempt of this call did; otherwise as FIND does.
 */
export const CANCEL: Script = queueScript(
  DESCRIBE,
  LOCATE,
  `
allowWithoutMemory()
local marker, id = KEYS[#KEYS], string.sub(ARGV[4], 2)
local seq = locate()
if not seq then return { now, redis.call('EXISTS', marker) == 1 and 1 or missing() } end
local state = redis.call('HGET', STATES, seq)
local isHeld = placeOf(seq, state) == 'inFlight'
local noneReady = isNoneReady()
local isFirst = true -- of its key, if it has one
if redis.call('ZREM', DUE, seq) == 1 then
  redis.call('ZREM', DELAYED, seq)
  isFirst = state
elseif redis.call('ZREM', BLOCKED, seq) == 1 then
  isFirst = false
elseif redis.call('ZREM', RETURNED, seq) == 0 and redis.call('EXISTS', READY) == 1 then
  redis.call('SADD', CANCELLED, seq)
end
redis.call('HDEL', MESSAGES, seq)
redis.call('HDEL', STATES, seq)
redis.call('HDEL', CHECKPOINTS, seq)
for i, indexed in ipairs(redis.call('HMGET', IDS, unpack(ARGV, 4))) do
  if indexed == seq then redis.call('HDEL', IDS, ARGV[i + 3]) end
end
if isFirst then
  if deleteTraits({ seq }) > 0 and noneReady then announce(META) end
else
  redis.call('HDEL', TRAITS, seq)
end
if isHeld then redis.pcall('PUBLISH', string.sub(META, 1, -5) .. 'cancel', id) end
redis.call('SET', marker, '', 'PX', '60000')
return { now, 1 }
`,
);
