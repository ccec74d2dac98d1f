import { REGISTER_WAIT } from "./handover.ts";
import { ALLOW, COUNT_DELIVERED } from "./limits.ts";
import { FORGET_BODILESS, RECOVER } from "./recover.ts";
import { QueueScript } from "./script.ts";

/**
 * Makes messages ready whose delay or lease has ended, and their receipt handles invalid. Only when more than
 * 10 000 become ready between two receives, some may be delivered before an older one.
 */
export const MAKE_DUE_READY: string = `
for _ = 1, 10 do
  local seqs = redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1000')
  if #seqs == 0 then break end
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('ZREM', TIMES, unpack(seqs))
  local traits, states, joining, lines, ended = readTraits(seqs), {}, {}, {}, {}
  for i, state in ipairs(redis.call('HMGET', STATES, unpack(seqs))) do
    local line = traits[i] and #traits[i] > 2 and string.sub(traits[i], 3)
    if state then
      states[#states + 1] = seqs[i]
      states[#states + 1] = readyState(state)
    elseif line then
      joining[#joining + 1] = seqs[i]
      lines[#joining] = line
      if string.byte(traits[i]) == 48 then ended[#ended + 1] = 't' .. seqs[i] end -- "0"
    end
  end
  if #states > 0 then redis.call('HSET', STATES, unpack(states)) end
  if #ended > 0 then redis.call('HDEL', TRAITS, unpack(ended)) end
  local isBlocked, ready = #joining > 0 and joinLines(joining, lines) or {}, {}
  for _, seq in ipairs(seqs) do
    if not isBlocked[seq] then ready[#ready + 1] = seq end
  end
  if #ready > 0 then putBack(ready) end
end
`;

/**
 * Acknowledges, then leases messages. ARGV: valid until, max, visibility, receive id, seconds until an unused
 * queue is deleted (0: never), the owner if it waits for messages, else "", and the arguments of an
 * acknowledgement, if any. Replies with:
 *
 * - the microseconds until the next message becomes ready or may be delivered (-1: none will)
 * - notes: whether memory is full, how many messages had lost their body, how many were orphaned, and when no
 *   message was received: the last message number, and how many messages are leased
 * - the result of the acknowledgement
 * - the numbers and the records of the messages
 * - for each message that was delivered before: its index, deliveries, expired leases, checkpoint
 * - whether the owner was registered as waiting before this call
 */
export const RECEIVE: QueueScript = new QueueScript(`
local full = isOutOfMemory()
allowWithoutMemory()
local acknowledged, notify = false, false
if ARGV[7] then acknowledged, notify = acknowledge(ARGV[7], 8) end
local max, receiveId = tonumber(ARGV[2]), ARGV[4]
local control, counts, part = redis.call('HMGET', META, 'paused', 'limit'), nil, nil
if control[1] or control[2] then
  -- rarely {
  ${ALLOW}
  if wait then
    if notify then announce(META) end
    return { now, wait, { full, 0, 0 }, acknowledged }
  end
  -- }
end
if #redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1') > 0 then
  -- rarely {
  ${MAKE_DUE_READY}
  -- }
end

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
          local deliveries, releases, expiries = parseState(earlier[seq])
          state = (deliveries + 1) .. ' ' .. releases .. ' ' .. expiries .. receiveId
          redelivered[#redelivered + 1] = #seqs - 1
          redelivered[#redelivered + 1] = deliveries + 1
          redelivered[#redelivered + 1] = tonumber(expiries) or 0
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
      -- rarely {
      ${FORGET_BODILESS}
      drained = isNoneReady()
      -- }
    end
    missing = max - #seqs
  end
  if #states > 0 then
    redis.call('HSET', STATES, unpack(states))
    redis.call('ZADD', DUE, unpack(leases))
  end
  return drained
end

local orphaned = 0
local drained = lease()
if lost > 0 and redis.call('EXISTS', TRAITS) == 1 then
  -- rarely {
  -- A message that was the first of its key is lost, and with its record its key.
  ${RECOVER}
  orphaned = 0
  drained = lease()
  -- }
end
if drained then
  -- Every message has a due time now or is blocked, and the first message of its key has a due time. Otherwise
  -- another program or an eviction has deleted a key. Each key and each blocked message has a field in TRAITS.
  local count, due, blocked =
    redis.call('HLEN', MESSAGES), redis.call('ZCARD', DUE), redis.call('ZCARD', BLOCKED)
  if count > due + blocked
    or blocked > 0 and (due == 0 or redis.call('HLEN', TRAITS) <= blocked) then
    -- rarely {
    ${RECOVER}
    orphaned = math.max(0, orphaned - blocked)
    lease()
    -- }
  elseif count == 0 then
    redis.call('UNLINK', IDS, TRAITS, BLOCKED) -- what another version has left there
    if redis.call('EXISTS', META) == 1 then redis.call('HSETNX', META, 'indexed', 1) end
  end
end
-- Another receiver may wait for the messages that the acknowledgement made ready.
if notify and redis.call('EXISTS', READY, RETURNED) > 0 then announce(META) end
if ARGV[5] ~= '0' then expireUnused(ARGV[5]) end
if counts and #seqs > 0 then
  -- rarely {
  ${COUNT_DELIVERED}
  -- }
end
if #seqs > 0 then
  local waited = ARGV[6] ~= '' and redis.call('ZREM', WAITING, ARGV[6])
  return { now, 0, { full, lost, orphaned }, acknowledged, seqs, records, redelivered, waited }
end
if ARGV[6] ~= '' then
  ${REGISTER_WAIT}
end
forgetIds(1000)
local due = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
local last = tonumber(redis.call('HGET', META, 'seq') or 0)
local nextDue, leased = -1, 0
if due[2] then
  nextDue = math.max(0, due[2] - now)
  leased = redis.call('ZCARD', DUE) - redis.call('ZCOUNT', TIMES, '-inf', '(0')
end
return { now, nextDue, { full, lost, orphaned, last, leased }, acknowledged }
`);

/**
 * Releases the messages of a receive whose reply was lost. ARGV: valid until, receive id, and the earliest
 * and latest end of its leases.
 */
export const RELEASE_LOST: QueueScript = new QueueScript(`
allowWithoutMemory()
local count = 0
for _, seq in ipairs(redis.call('ZRANGEBYSCORE', DUE, ARGV[3], ARGV[4])) do
  local state = redis.call('HGET', STATES, seq) or ''
  if string.sub(state, -#ARGV[2] - 1) == ' ' .. ARGV[2] then
    local deliveries, releases, expiries = parseState(state)
    redis.call('HSET', STATES, seq, (deliveries - 1) .. ' ' .. releases .. ' ' .. expiries)
    makeReady({ seq })
    count = count + 1
  end
end
if count > 0 then announce(META) end
return { now, count }
`);
