import { DESCRIBE } from "./control.ts";
import { MAKE_DUE_READY } from "./receive.ts";
import { QueueScript } from "./script.ts";

const LOCATE = `
-- Returns '1' (a chosen id) or '0' when the record has the id; otherwise nil. ARGV[2] is how its head begins.
local function matchId(record)
  local first = string.find(record, ' ', 1, true) + 1
  local last = first + #ARGV[2]
  if string.sub(record, first, last - 1) == ARGV[2] then return string.sub(record, last, last) end
end

-- Finds the message among some numbers. Returns its number, its record and whether its id was chosen. Dead
-- letters may have the same id: it remembers the first one that is leased in \`held\`, and looks for another.
local held
local function among(seqs)
  for i, record in ipairs(redis.call('HMGET', MESSAGES, unpack(seqs))) do
    local match = record and matchId(record)
    if match then
      local state = redis.call('HGET', STATES, seqs[i])
      if match == '1' or not state or string.byte(state, -1) == 32 then
        return seqs[i], record, match == '1'
      end
      held = held or { seqs[i], record, false }
    end
  end
end

-- Finds a message by its number in ARGV[3], if any, or by its id, which ARGV[4] and ARGV[5] have as SEND has
-- it, chosen and generated. The results are those of among.
local function locate()
  local seq, record, isChosen = ARGV[3] ~= '' and ARGV[3] or redis.call('HGET', IDS, ARGV[4])
  if seq then seq, record, isChosen = among({ seq }) end
  if seq then return seq, record, isChosen end
  local blocks = {} -- the oldest first
  for block in string.gmatch(redis.call('HGET', IDS, '@' .. string.sub(ARGV[5], 2)) or '', '%d+') do
    table.insert(blocks, 1, block)
  end
  for _, block in ipairs(blocks) do
    -- A few at a time, because bodies may be large.
    for first = block * 64, block * 64 + 63, 16 do
      local seqs = {}
      for i = 0, 15 do seqs[#seqs + 1] = at(first + i) end
      seq, record, isChosen = among(seqs)
      if seq then return seq, record, isChosen end
    end
  end
  if held then return unpack(held) end
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

/**
 * Ends the delay of a message. ARGV: as for FIND. Replies with 1, with 0 when there is no such delayed message,
 * or with -1 when SEARCH may find it.
 */
export const DELIVER_NOW: QueueScript = new QueueScript(`
${DESCRIBE}${LOCATE}
allowWithoutMemory()
local seq = locate()
if not seq then return { now, missing() } end
if placeOf(seq, redis.call('HGET', STATES, seq)) ~= 'delayed' then return { now, 0 } end
redis.call('ZADD', DUE, at(now), seq) -- behind those that are due already
${MAKE_DUE_READY}
announce(META)
return { now, 1 }
`);
