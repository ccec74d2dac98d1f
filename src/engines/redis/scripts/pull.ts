import { FORGET, GIVE_BACK, HELD, MEMORY, PAST, SETTLE, UNREFUSED } from "./_parts.ts";
import { Script } from "./script.ts";

/**
 * Makes messages ready whose delay or lease has ended, and invalidates their receipts. Only when more than
 * 10 000 fall due between two pulls, some may be delivered before an older one.
 */
const SURFACE = `
for _ = 1, 10 do
  local seqs = redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1000')
  if #seqs == 0 then break end
  giveBack(seqs)
  local states = {}
  for i, state in ipairs(redis.call('HMGET', STATE, unpack(seqs))) do
    local deliveries, releases = past(state or '')
    if deliveries then
      states[#states + 1] = seqs[i]
      states[#states + 1] = deliveries .. ' ' .. releases .. ' '
    end
  end
  if #states > 0 then redis.call('HSET', STATE, unpack(states)) end
end
`;

/**
 * `take` removes the oldest messages from READY and RETURNED. Most messages are delivered once, from the
 * list READY, which is faster than a sorted set and needs no lookup of earlier deliveries. Returned and
 * delayed messages are in the sorted set RETURNED. Both are ordered by message number. `memories` returns
 * the states and the checkpoints of returned messages.
 */
const TAKE = `
local function take(max)
  local seqs, old = {}, {}
  local back = redis.call('ZRANGE', RETURNED, 0, max - 1)
  if #back == 0 then return redis.call('LPOP', READY, max) or {}, old end
  local fresh = redis.call('LRANGE', READY, 0, max - 1)
  local b, f = 1, 1
  while #seqs < max and (back[b] or fresh[f]) do
    if back[b] and not (fresh[f] and tonumber(fresh[f]) < tonumber(back[b])) then
      seqs[#seqs + 1] = back[b]
      old[#old + 1] = back[b]
      b = b + 1
    else
      seqs[#seqs + 1] = fresh[f]
      f = f + 1
    end
  end
  if b > 1 then redis.call('ZREMRANGEBYRANK', RETURNED, 0, b - 2) end
  if f > 1 then redis.call('LPOP', READY, f - 1) end
  return seqs, old
end
local function memories(old)
  local states, progress = {}, {}
  if #old == 0 then return states, progress end
  local found = redis.call('HMGET', STATE, unpack(old))
  local saved = redis.call('EXISTS', PROGRESS) == 1 and redis.call('HMGET', PROGRESS, unpack(old))
  for i, seq in ipairs(old) do
    states[seq] = found[i]
    progress[seq] = saved and saved[i]
  end
  return states, progress
end
`;

/**
 * `findStrays` makes orphaned messages ready again: another program or an eviction has deleted READY,
 * RETURNED or DUE. It runs when READY and RETURNED are empty, so that every message must have a due time.
 */
const STRAYS = `
local function findStrays()
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
`;

/**
 * Acknowledges, then leases messages. ARGV: valid until, max, visibility, nonce, and the arguments of an
 * acknowledgement, if any. Replies with:
 *
 * - the microseconds until the next message falls due (-1: none will)
 * - notes: whether memory is full, how many messages had lost their body, how many were orphaned, and the
 *   last message number when no message was received
 * - the result of the acknowledgement
 * - the numbers and the records of the messages
 * - for each message that was delivered before: its index, deliveries, checkpoint
 */
export const PULL: Script = new Script(
  MEMORY,
  `local full = isFull()`,
  UNREFUSED,
  HELD,
  FORGET,
  SETTLE,
  `local settled = ARGV[5] and acknowledge(ARGV[5], 6) or false`,
  GIVE_BACK,
  PAST,
  SURFACE,
  TAKE,
  STRAYS,
  `
local max, nonce = tonumber(ARGV[2]), ARGV[4]
local lease, first = at(now + tonumber(ARGV[3])), '1 0 ' .. nonce
local seqs, records, again, ghosts = {}, {}, {}, {}
-- Leases up to max messages. Returns true when no ready message is left.
local function fill()
  local states, leases = {}, {}
  local wanted = max - #seqs
  local dry = false
  while wanted > 0 and not dry do
    local taken, old = take(wanted)
    dry = #taken < wanted
    if #taken == 0 then break end
    local found = redis.call('HMGET', MESSAGES, unpack(taken))
    local before, progress = memories(old)
    for i, seq in ipairs(taken) do
      if found[i] then
        local state = first
        seqs[#seqs + 1] = seq
        records[#seqs] = found[i]
        if before[seq] then
          local deliveries, releases = past(before[seq])
          state = (deliveries + 1) .. ' ' .. releases .. ' ' .. nonce
          again[#again + 1] = #seqs - 1
          again[#again + 1] = deliveries + 1
          again[#again + 1] = progress[seq] or false
        end
        states[#states + 1] = seq
        states[#states + 1] = state
        leases[#leases + 1] = lease
        leases[#leases + 1] = seq
      else
        ghosts[#ghosts + 1] = seq
      end
    end
    wanted = max - #seqs
  end
  if #states > 0 then
    redis.call('HSET', STATE, unpack(states))
    redis.call('ZADD', DUE, unpack(leases))
  end
  return dry
end
local strays = fill() and findStrays() or 0
if strays > 0 then fill() end
for _, seq in ipairs(ghosts) do
  redis.call('HDEL', STATE, seq)
  redis.call('HDEL', PROGRESS, seq)
end
if #seqs > 0 then
  return { now, 0, { full, #ghosts, strays }, settled, seqs, records, again }
end
local due = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
local last = tonumber(redis.call('HGET', META, 'seq') or 0)
local nextDue = due[2] and math.max(0, due[2] - now) or -1
return { now, nextDue, { full, #ghosts, strays, last }, settled }
`,
);

/**
 * Releases the messages of a pull whose reply was lost. ARGV: valid until, channel, nonce, and the earliest
 * and latest end of its leases.
 */
export const RECOVER: Script = new Script(
  UNREFUSED,
  GIVE_BACK,
  PAST,
  `
local seqs = redis.call('ZRANGEBYSCORE', DUE, ARGV[4], ARGV[5])
local count = 0
for _, seq in ipairs(seqs) do
  local state = redis.call('HGET', STATE, seq) or ''
  if string.sub(state, -#ARGV[3] - 1) == ' ' .. ARGV[3] then
    local deliveries, releases = past(state)
    redis.call('HSET', STATE, seq, (deliveries - 1) .. ' ' .. releases .. ' ')
    giveBack({ seq })
    count = count + 1
  end
end
if count > 0 then wake(ARGV[2]) end
return { now, count }
`,
);
