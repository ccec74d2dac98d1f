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
-- so many. READY and BLOCKED may have cancelled messages.
local function oldestWaiting(max)
  local seqs = {}
  local function add(more)
    for _, seq in ipairs(more) do seqs[#seqs + 1] = seq end
  end
  local cancelled = math.min(redis.call('HGET', TRAITS, 'c') or 0, 10000)
  add(redis.call('LRANGE', READY, 0, cancelled + max - 1))
  -- RETURNED is in order within a priority, each of which has a range of ranks.
  local step = 10000000000000
  for priority = 0, redis.call('EXISTS', TRAITS) == 1 and 9 or 0 do
    local first, last = at(-priority * step), '(' .. at((1 - priority) * step)
    add(redis.call('ZRANGEBYSCORE', RETURNED, first, last, 'LIMIT', '0', max))
  end
  add(redis.call('ZRANGE', BLOCKED, 0, cancelled + max - 1))
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
export const PEEK: QueueScript = new QueueScript(`
${DESCRIBE}${OLDEST}
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
`);

/**
 * Replies with the numbers of waiting, delayed and leased messages, the microseconds until a pause ends (-1: when
 * it is resumed, 0: there is none), the milliseconds since the oldest waiting message was sent (-1: none waits),
 * and the rate limit as META has it, or "". Messages that version 0.1 has delayed count as leased.
 */
export const STATS: QueueScript = new QueueScript(`
${OLDEST}
local over = redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '10000')
local ended = redis.call('ZCOUNT', DUE, '-inf', at(now))
local hidden = redis.call('ZCARD', DUE) - ended
local delayed = math.min(hidden, redis.call('ZCOUNT', TIMES, '-inf', '(-' .. at(now)))
local waiting = math.max(0, redis.call('HLEN', MESSAGES) - hidden)
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
local paused, limit = unpack(redis.call('HMGET', META, 'paused', 'limit'))
local left = paused == '1' and -1 or math.max(0, (paused or 0) - now)
return { now, waiting, delayed, hidden - delayed, left, oldest, limit or '' }
`);

const LOCATE = `
-- Returns '1' (a chosen id) or '0' when the record has the id; otherwise nil. ARGV[2] is how its head begins.
local function matchId(record)
  local first = string.find(record, ' ', 1, true) + 1
  local last = first + #ARGV[2]
  if string.sub(record, first, last - 1) == ARGV[2] then return string.sub(record, last, last) end
end

-- Finds the message among some numbers. Returns its number, its record and whether its id was chosen.
local function among(seqs)
  for i, record in ipairs(redis.call('HMGET', MESSAGES, unpack(seqs))) do
    local match = record and matchId(record)
    if match then return seqs[i], record, match == '1' end
  end
end

-- Finds a message by its number in ARGV[3], if any, or by its id, which ARGV[4] and ARGV[5] have as SEND has
-- it, chosen and generated. The results are those of among.
local function locate()
  if ARGV[3] ~= '' then return among({ ARGV[3] }) end
  local seq, record, isChosen = redis.call('HGET', IDS, ARGV[4])
  if seq then seq, record, isChosen = among({ seq }) end
  if seq then return seq, record, isChosen end
  local blocks = redis.call('HGET', IDS, '@' .. string.sub(ARGV[5], 2)) or ''
  for block in string.gmatch(blocks, '%d+') do
    -- A few at a time, because bodies may be large.
    for first = block * 64, block * 64 + 63, 16 do
      local seqs = {}
      for i = 0, 15 do seqs[#seqs + 1] = at(first + i) end
      seq, record, isChosen = among(seqs)
      if seq then return seq, record, isChosen end
    end
  end
end

-- Returns -1 when some messages may not be in IDS, otherwise 0.
local function missing()
  return ARGV[3] == '' and redis.call('HEXISTS', META, 'indexed') == 0 and -1 or 0
end
`;

/**
 * Replies with 1 and a message, with 0 when there is none, or with -1 when SEARCH may find it. ARGV: valid
 * until, how the head of the message begins, its number or "", and its id as SEND has chosen and generated ones.
 */
export const FIND: QueueScript = new QueueScript(`
${DESCRIBE}${LOCATE}
local seq, record = locate()
if not seq then return { now, missing() } end
local reply = { now, 1 }
describe(reply, seq, record)
return reply
`);

/**
 * Searches a part of all messages for an id. ARGV: valid until, how the head of the message begins, cursor.
 * Replies with the next cursor, and with the number of the message if it was found.
 */
export const SEARCH: QueueScript = new QueueScript(`
${LOCATE}
local page = redis.call('HSCAN', MESSAGES, ARGV[3], 'COUNT', '100')
for i = 1, #page[2], 2 do
  if matchId(page[2][i + 1]) then return { now, '0', page[2][i] } end
end
return { now, page[1] }
`);

/**
 * Deletes a message in any state. ARGV: as for FIND. Replies with 1 when it deleted one, or when the last key
 * tells that an earlier attempt of this call did; otherwise as FIND does.
 */
export const CANCEL: QueueScript = new QueueScript(`
${DESCRIBE}${LOCATE}
allowWithoutMemory()
local marker, id = KEYS[#KEYS], string.sub(ARGV[4], 2)
local seq, record, isChosen = locate()
if not seq then return { now, redis.call('EXISTS', marker) == 1 and 1 or missing() } end
local state = redis.call('HGET', STATES, seq)
local isHeld = placeOf(seq, state) == 'inFlight'
local noneReady = isNoneReady()
local priority, line = readHead(record)
local isFirst, isMarked = line, false
if redis.call('ZREM', DUE, seq) == 1 then
  redis.call('ZREM', TIMES, seq)
  isFirst = line and state
elseif redis.call('ZSCORE', BLOCKED, seq) then
  isFirst, isMarked = false, true
else
  isMarked = redis.call('ZREM', RETURNED, seq) == 0 and redis.call('EXISTS', READY) == 1
end
redis.call('HDEL', MESSAGES, seq)
redis.call('HDEL', STATES, seq)
redis.call('HDEL', CHECKPOINTS, seq)
redis.call('HDEL', TRAITS, 't' .. seq)
deleteIds(isChosen and ARGV[4] or ARGV[5], 1)
if isMarked then
  redis.call('HSET', TRAITS, 'c' .. seq, '')
  redis.call('HINCRBY', TRAITS, 'c', 1)
end
if isFirst and leaveLines({ seq }, { line }) > 0 and noneReady then announce(META) end
if isHeld then redis.pcall('PUBLISH', string.sub(META, 1, -5) .. 'cancel', id) end
redis.call('SET', marker, '', 'PX', '60000')
return { now, 1 }
`);
