import { queueScript, type Script } from "./script.ts";
import { HANDLES } from "./settle.ts";

/** Messages whose delay or lease has ended become ready, and their receipt handles invalid. */
const MAKE_DUE_READY = `
-- Only when more than 10 000 become ready between two receives, some may be delivered before an older one.
local function makeDueReady()
  for _ = 1, 10 do
    local seqs = redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1000')
    if #seqs == 0 then break end
    redis.call('ZREM', DELAYED, unpack(seqs))
    local traits, states, joining, keys = readTraits(seqs), {}, {}, {}
    for i, state in ipairs(redis.call('HMGET', STATES, unpack(seqs))) do
      local deliveries, releases = parseState(state or '')
      local key = keyOf(traits[i])
      if deliveries then
        states[#states + 1] = seqs[i]
        states[#states + 1] = deliveries .. ' ' .. releases .. ' '
      elseif key then
        joining[#joining + 1] = seqs[i]
        keys[#joining] = key
      end
    end
    if #states > 0 then redis.call('HSET', STATES, unpack(states)) end
    local isBlocked, ready = #joining > 0 and joinLines(joining, keys) or {}, {}
    for _, seq in ipairs(seqs) do
      if not isBlocked[seq] then ready[#ready + 1] = seq end
    end
    redis.call('ZREM', DUE, unpack(seqs))
    if #ready > 0 then putBack(ready) end
  end
end
`;

/** Takes messages from READY and RETURNED. */
const POP = `
-- Removes the first messages from READY and RETURNED, which both are in the order of their ranks. Returns
-- their numbers, and the numbers of those from RETURNED.
local function popReady(max)
  local seqs, returned = {}, {}
  local back = redis.call('ZRANGE', RETURNED, 0, max - 1, 'WITHSCORES')
  if #back == 0 then return redis.call('LPOP', READY, max) or {}, returned end
  local fresh = redis.call('LRANGE', READY, 0, max - 1)
  local b, f = 1, 1
  while #seqs < max and (back[b] or fresh[f]) do
    if back[b] and not (fresh[f] and tonumber(fresh[f]) < tonumber(back[b + 1])) then
      seqs[#seqs + 1] = back[b]
      returned[#returned + 1] = back[b]
      b = b + 2
    else
      seqs[#seqs + 1] = fresh[f]
      f = f + 1
    end
  end
  if b > 1 then redis.call('ZREMRANGEBYRANK', RETURNED, 0, #returned - 1) end
  if f > 1 then redis.call('LPOP', READY, f - 1) end
  return seqs, returned
end

-- Deletes cancelled messages from the start of READY, many at a time.
local function skipCancelled()
  while redis.call('EXISTS', CANCELLED, READY) == 2 do
    local seqs = redis.call('LRANGE', READY, 0, 999)
    local count = 0
    for _, isCancelled in ipairs(redis.call('SMISMEMBER', CANCELLED, unpack(seqs))) do
      if isCancelled == 0 then break end
      count = count + 1
    end
    if count == 0 then return end
    redis.call('LPOP', READY, count)
    redis.call('SREM', CANCELLED, unpack(seqs, 1, count))
  end
end

-- Forgets popped messages without a record. Returns how many were not cancelled: their body was lost.
local function forgetBodiless(seqs)
  local lost = {}
  for i, isCancelled in ipairs(redis.call('SMISMEMBER', CANCELLED, unpack(seqs))) do
    if isCancelled == 0 then lost[#lost + 1] = seqs[i] end
  end
  if #lost < #seqs then
    redis.call('SREM', CANCELLED, unpack(seqs))
    skipCancelled()
  end
  if #lost == 0 then return 0 end
  redis.call('HDEL', STATES, unpack(lost))
  redis.call('HDEL', CHECKPOINTS, unpack(lost))
  if redis.call('EXISTS', TRAITS) == 1 then deleteTraits(lost) end
  return #lost
end
`;

/** Repairs what another program or an eviction has deleted. */
const RECOVER = `
-- Calls act with at most 1 000 numbers at a time, and the due time of each or false.
local function forEachMessage(seqs, act)
  for first = 1, #seqs, 1000 do
    local some = { unpack(seqs, first, math.min(first + 999, #seqs)) }
    act(some, redis.call('ZMSCORE', DUE, unpack(some)))
  end
end

-- Makes orphaned messages ready again: READY, RETURNED or DUE was deleted, or a key of the lines. Call it
-- when READY and RETURNED are empty: then every message has a due time or is blocked, and the first message
-- of each blocked one has a due time. Returns the number of messages that became ready or blocked.
local function recoverOrphans()
  local count, due = redis.call('HLEN', MESSAGES), redis.call('ZCARD', DUE)
  if count == 0 then
    redis.call('UNLINK', IDS, TRAITS, LINES, BLOCKED, CANCELLED) -- what is left there is of no use
    return 0
  end
  local blocked = redis.call('ZCARD', BLOCKED)
  local isBroken = blocked > 0
    and (due == 0 or redis.call('HLEN', LINES) <= blocked or redis.call('HLEN', TRAITS) <= blocked)
  if count <= due + blocked and not isBroken then return 0 end
  redis.call('UNLINK', LINES, BLOCKED, CANCELLED)
  local seqs = redis.call('HKEYS', MESSAGES)
  table.sort(seqs, function (a, b) return tonumber(a) < tonumber(b) end)
  -- First the messages that were delivered: each is the first of its key.
  forEachMessage(seqs, function (some, dues)
    local traits, states = readTraits(some), redis.call('HMGET', STATES, unpack(some))
    for i, seq in ipairs(some) do
      local key = dues[i] and states[i] and keyOf(traits[i])
      if key then redis.call('HSET', LINES, 'k' .. key, seq) end
    end
  end)
  local found = 0
  forEachMessage(seqs, function (some, dues)
    local traits, orphans, joining, keys = readTraits(some), {}, {}, {}
    for i, seq in ipairs(some) do
      local key = not dues[i] and keyOf(traits[i])
      if not dues[i] then orphans[#orphans + 1] = seq end
      if key then
        joining[#joining + 1] = seq
        keys[#joining] = key
      end
    end
    local isBlocked, ready = #joining > 0 and joinLines(joining, keys) or {}, {}
    for _, seq in ipairs(orphans) do
      if not isBlocked[seq] then ready[#ready + 1] = seq end
    end
    if #ready > 0 then putBack(ready) end
    found = found + #ready
  end)
  return found + math.max(0, redis.call('ZCARD', BLOCKED) - blocked)
end
`;

/**
 * Acknowledges, then leases messages. ARGV: valid until, max, visibility, receive id, seconds until an unused
 * queue is deleted (0: never), and the arguments of an acknowledgement, if any. Replies with:
 *
 * - the microseconds until the next message becomes ready (-1: none will)
 * - notes: whether memory is full, how many messages had lost their body, how many were orphaned, and the
 *   last message number when no message was received
 * - the result of the acknowledgement
 * - the numbers and the records of the messages
 * - for each message that was delivered before: its index, deliveries, checkpoint
 */
export const RECEIVE: Script = queueScript(
  HANDLES,
  MAKE_DUE_READY,
  POP,
  RECOVER,
  `
local full = isOutOfMemory()
allowWithoutMemory()
local acknowledged, notify = false, false
if ARGV[6] then acknowledged, notify = acknowledge(ARGV[6], 7) end
if redis.call('HEXISTS', META, 'paused') == 1 then
  return { now, -1, { full, 0, 0 }, acknowledged }
end
makeDueReady()

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
local seqs, records, redelivered, lost = {}, {}, {}, 0
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
    local bodiless = {}
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
    if #bodiless > 0 then
      lost = lost + forgetBodiless(bodiless)
      drained = isNoneReady()
    end
    missing = max - #seqs
  end
  if #states > 0 then
    redis.call('HSET', STATES, unpack(states))
    redis.call('ZADD', DUE, unpack(leases))
  end
  return drained
end

local orphaned = lease() and recoverOrphans() or 0
if orphaned > 0 then lease() end
-- Another receiver may wait for the messages that the acknowledgement made ready.
if notify and not isNoneReady() then announce(META) end
expireUnused(ARGV[5])
if #seqs > 0 then
  return { now, 0, { full, lost, orphaned }, acknowledged, seqs, records, redelivered }
end
forgetIds(1000)
local due = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
local last = tonumber(redis.call('HGET', META, 'seq') or 0)
local nextDue = due[2] and math.max(0, due[2] - now) or -1
return { now, nextDue, { full, lost, orphaned, last }, acknowledged }
`,
);

/**
 * Releases the messages of a receive whose reply was lost. ARGV: valid until, receive id, and the earliest
 * and latest end of its leases.
 */
export const RELEASE_LOST: Script = queueScript(`
allowWithoutMemory()
local count = 0
for _, seq in ipairs(redis.call('ZRANGEBYSCORE', DUE, ARGV[3], ARGV[4])) do
  local state = redis.call('HGET', STATES, seq) or ''
  if string.sub(state, -#ARGV[2] - 1) == ' ' .. ARGV[2] then
    local deliveries, releases = parseState(state)
    redis.call('HSET', STATES, seq, (deliveries - 1) .. ' ' .. releases .. ' ')
    makeReady({ seq })
    count = count + 1
  end
end
if count > 0 then announce(META) end
return { now, count }
`);
