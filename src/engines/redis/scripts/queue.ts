import { queueScript, type Script } from "./script.ts";

/**
 * Stores messages. ARGV: valid until, channel, maximum size, and for each message: chosen id or "", delay,
 * head, body. When they do not fit, it stores nothing and replies with 0, the count and the number of new
 * messages. Otherwise it replies with 1, the count, the number of stored messages, the indexes of the
 * duplicates, and the last message number if any were stored.
 */
export const SEND: Script = queueScript(`
-- An id whose message was deleted is free.
local function isStored(id)
  local seq = redis.call('HGET', IDS, id)
  return seq and redis.call('HEXISTS', MESSAGES, seq) == 1
end
local channel, maxSize = ARGV[2], tonumber(ARGV[3])
local fresh, duplicates, chosen = {}, {}, {}
for i = 4, #ARGV, 4 do
  local id = ARGV[i]
  if id ~= '' and (chosen[id] or isStored(id)) then
    duplicates[#duplicates + 1] = i / 4 - 1
  else
    chosen[id] = id ~= ''
    fresh[#fresh + 1] = i
  end
end
local count = redis.call('HLEN', MESSAGES)
if count + #fresh > maxSize then return { now, 0, count, #fresh } end
if #fresh == 0 then return { now, 1, count, 0, duplicates } end

local notify = isNoneReady()
local seq = reserveNumbers(META, MESSAGES, #fresh)
local records, ready, due = {}, {}, {}
local function store()
  redis.call('HSET', MESSAGES, unpack(records))
  if #ready > 0 then redis.call('RPUSH', READY, unpack(ready)) end
  if #due > 0 then redis.call('ZADD', DUE, unpack(due)) end
  notify = notify or #due > 0
  records, ready, due = {}, {}, {}
end
for n, i in ipairs(fresh) do
  seq = seq + 1
  local id, delay = ARGV[i], tonumber(ARGV[i + 1])
  if id ~= '' then redis.call('HSET', IDS, id, seq) end
  records[#records + 1] = seq
  records[#records + 1] = formatRecord(ARGV[i + 2], ARGV[i + 3])
  if delay == 0 then
    ready[#ready + 1] = seq
  else
    due[#due + 1] = now + delay
    due[#due + 1] = seq
  end
  -- The number of arguments of one call is limited.
  if n % 1000 == 0 or n == #fresh then store() end
end
if notify then wake(channel) end
return { now, 1, count, #fresh, duplicates, seq }
`);

/**
 * Acknowledges, then leases messages. ARGV: valid until, max, visibility, receive id, and the arguments of
 * an acknowledgement, if any. Replies with:
 *
 * - the microseconds until the next message becomes ready (-1: none will)
 * - notes: whether memory is full, how many messages had lost their body, how many were orphaned, and the
 *   last message number when no message was received
 * - the result of the acknowledgement
 * - the numbers and the records of the messages
 * - for each message that was delivered before: its index, deliveries, checkpoint
 */
export const RECEIVE: Script = queueScript(`
local full = isOutOfMemory()
allowWithoutMemory()
local acknowledged = ARGV[5] and acknowledge(ARGV[5], 6) or false

-- Messages whose delay or lease has ended become ready, and their receipt handles invalid. Only when more
-- than 10 000 become ready between two receives, some may be delivered before an older one.
for _ = 1, 10 do
  local seqs = redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1000')
  if #seqs == 0 then break end
  makeReady(seqs)
  local states = {}
  for i, state in ipairs(redis.call('HMGET', STATES, unpack(seqs))) do
    local deliveries, releases = parseState(state or '')
    if deliveries then
      states[#states + 1] = seqs[i]
      states[#states + 1] = deliveries .. ' ' .. releases .. ' '
    end
  end
  if #states > 0 then redis.call('HSET', STATES, unpack(states)) end
end

-- Removes the oldest messages from READY and RETURNED, which both are in the order of the numbers. Returns
-- their numbers, and the numbers of those from RETURNED.
local function popReady(max)
  local seqs, returned = {}, {}
  local back = redis.call('ZRANGE', RETURNED, 0, max - 1)
  if #back == 0 then return redis.call('LPOP', READY, max) or {}, returned end
  local fresh = redis.call('LRANGE', READY, 0, max - 1)
  local b, f = 1, 1
  while #seqs < max and (back[b] or fresh[f]) do
    if back[b] and not (fresh[f] and tonumber(fresh[f]) < tonumber(back[b])) then
      seqs[#seqs + 1] = back[b]
      returned[#returned + 1] = back[b]
      b = b + 1
    else
      seqs[#seqs + 1] = fresh[f]
      f = f + 1
    end
  end
  if b > 1 then redis.call('ZREMRANGEBYRANK', RETURNED, 0, b - 2) end
  if f > 1 then redis.call('LPOP', READY, f - 1) end
  return seqs, returned
end

-- Returns the states and the checkpoints of returned messages, by number.
local function readStates(returned)
  local states, checkpoints = {}, {}
  if #returned == 0 then return states, checkpoints end
  local found = redis.call('HMGET', STATES, unpack(returned))
  local saved = redis.call('EXISTS', CHECKPOINTS) == 1
    and redis.call('HMGET', CHECKPOINTS, unpack(returned))
  for i, seq in ipairs(returned) do
    states[seq] = found[i]
    checkpoints[seq] = saved and saved[i]
  end
  return states, checkpoints
end

local max, receiveId = tonumber(ARGV[2]), ARGV[4]
local leaseEnd, firstState = at(now + tonumber(ARGV[3])), '1 0 ' .. receiveId
local seqs, records, redelivered, bodiless = {}, {}, {}, {}
-- Leases messages until there are max. Returns true when no ready message is left.
local function lease()
  local states, leases = {}, {}
  local missing = max - #seqs
  local drained = false
  while missing > 0 and not drained do
    local popped, returned = popReady(missing)
    drained = #popped < missing
    if #popped == 0 then break end
    local found = redis.call('HMGET', MESSAGES, unpack(popped))
    local earlier, checkpoints = readStates(returned)
    for i, seq in ipairs(popped) do
      if found[i] then
        local state = firstState
        seqs[#seqs + 1] = seq
        records[#seqs] = found[i]
        if earlier[seq] then
          local deliveries, releases = parseState(earlier[seq])
          state = (deliveries + 1) .. ' ' .. releases .. ' ' .. receiveId
          redelivered[#redelivered + 1] = #seqs - 1
          redelivered[#redelivered + 1] = deliveries + 1
          redelivered[#redelivered + 1] = checkpoints[seq] or false
        end
        states[#states + 1] = seq
        states[#states + 1] = state
        leases[#leases + 1] = leaseEnd
        leases[#leases + 1] = seq
      else
        bodiless[#bodiless + 1] = seq
      end
    end
    missing = max - #seqs
  end
  if #states > 0 then
    redis.call('HSET', STATES, unpack(states))
    redis.call('ZADD', DUE, unpack(leases))
  end
  return drained
end

-- Makes orphaned messages ready again: another program or an eviction has deleted READY, RETURNED or DUE.
-- Call it when READY and RETURNED are empty, so that every message must have a due time.
local function recoverOrphans()
  if redis.call('HLEN', MESSAGES) <= redis.call('ZCARD', DUE) then return 0 end
  local all, found = redis.call('HKEYS', MESSAGES), 0
  for first = 1, #all, 1000 do
    local some = { unpack(all, first, math.min(first + 999, #all)) }
    local places = {}
    for i, due in ipairs(redis.call('ZMSCORE', DUE, unpack(some))) do
      if not due then
        places[#places + 1] = some[i]
        places[#places + 1] = some[i]
      end
    end
    if #places > 0 then found = found + redis.call('ZADD', RETURNED, unpack(places)) end
  end
  return found
end

local orphaned = lease() and recoverOrphans() or 0
if orphaned > 0 then lease() end
for _, seq in ipairs(bodiless) do
  redis.call('HDEL', STATES, seq)
  redis.call('HDEL', CHECKPOINTS, seq)
end
if #seqs > 0 then
  return { now, 0, { full, #bodiless, orphaned }, acknowledged, seqs, records, redelivered }
end
local due = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
local last = tonumber(redis.call('HGET', META, 'seq') or 0)
local nextDue = due[2] and math.max(0, due[2] - now) or -1
return { now, nextDue, { full, #bodiless, orphaned, last }, acknowledged }
`);

/**
 * Releases the messages of a receive whose reply was lost. ARGV: valid until, channel, receive id, and the
 * earliest and latest end of its leases.
 */
export const RELEASE_LOST: Script = queueScript(`
allowWithoutMemory()
local count = 0
for _, seq in ipairs(redis.call('ZRANGEBYSCORE', DUE, ARGV[4], ARGV[5])) do
  local state = redis.call('HGET', STATES, seq) or ''
  if string.sub(state, -#ARGV[3] - 1) == ' ' .. ARGV[3] then
    local deliveries, releases = parseState(state)
    redis.call('HSET', STATES, seq, (deliveries - 1) .. ' ' .. releases .. ' ')
    makeReady({ seq })
    count = count + 1
  end
end
if count > 0 then wake(ARGV[2]) end
return { now, count }
`);

/** Replies with the number of messages. */
export const COUNT: Script = queueScript(`return { now, redis.call('HLEN', MESSAGES) }`);

/** Deletes everything but META: a number used twice would make old receipt handles valid again. */
export const PURGE: Script = queueScript(`
local count = redis.call('HLEN', MESSAGES)
redis.call('UNLINK', READY, RETURNED, DUE, MESSAGES, STATES, CHECKPOINTS, IDS)
return { now, count }
`);

/**
 * Replies with the oldest messages. ARGV: valid until, max. Hidden messages are sorted by due time, so of
 * more than 10 000 it considers only those that are due first.
 */
export const PEEK: Script = queueScript(`
local max = tonumber(ARGV[2])
local seqs = redis.call('LRANGE', READY, 0, max - 1)
for _, seq in ipairs(redis.call('ZRANGE', RETURNED, 0, max - 1)) do seqs[#seqs + 1] = seq end
for _, seq in ipairs(redis.call('ZRANGE', DUE, 0, 9999)) do seqs[#seqs + 1] = seq end
table.sort(seqs, function (a, b) return tonumber(a) < tonumber(b) end)
local reply = { now, 0 }
for _, seq in ipairs(seqs) do
  if #reply >= max * 4 + 2 then break end
  local record = redis.call('HGET', MESSAGES, seq)
  if record then
    reply[#reply + 1] = seq
    reply[#reply + 1] = tonumber(string.match(redis.call('HGET', STATES, seq) or '0', '^%d+'))
    reply[#reply + 1] = record
    reply[#reply + 1] = redis.call('HGET', CHECKPOINTS, seq)
  end
end
return reply
`);
