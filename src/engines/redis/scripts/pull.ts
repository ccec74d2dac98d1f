import { GIVE_BACK } from "./_parts.ts";
import { Script } from "./script.ts";

/**
 * Puts those back in line whose delay or lease is over. Only when more than 10 000 fall due between two
 * pulls, some of them may be taken before an older one.
 */
const SURFACE = `
for _ = 1, 10 do
  local seqs = redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, 1000)
  if #seqs == 0 then break end
  giveBack(seqs)
end
`;

/**
 * Takes the oldest from two lines. Most messages are delivered once, straight from a list, which is
 * faster than a sorted set and needs no look at what became of them before; only those that came back or
 * were delayed stand in a sorted set. Both are in the order of the numbers.
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
local function past(old)
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
 * ARGV: valid until, max, visibility, nonce. Answers the time until something falls due (-1: nothing
 * will), how many messages had lost their body, and for each message: number, deliveries, record, progress.
 */
export const PULL: Script = new Script(
  GIVE_BACK,
  SURFACE,
  TAKE,
  `
local max, visibility, nonce = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local reply = { now, 0, 0 }
local ghosts = {}
local states, leases = {}, {}
while max > 0 do
  local seqs, old = take(max)
  if #seqs == 0 then break end
  local records = redis.call('HMGET', MESSAGES, unpack(seqs))
  local before, progress = past(old)
  for i, seq in ipairs(seqs) do
    if records[i] then
      local deliveries, releases = string.match(before[seq] or '0 0 ', '^(%d+) (%d+) ')
      deliveries = deliveries + 1
      states[#states + 1] = seq
      states[#states + 1] = deliveries .. ' ' .. releases .. ' ' .. nonce
      leases[#leases + 1] = now + visibility
      leases[#leases + 1] = seq
      reply[#reply + 1] = seq
      reply[#reply + 1] = deliveries
      reply[#reply + 1] = records[i]
      reply[#reply + 1] = progress[seq] or false
      max = max - 1
    else
      ghosts[#ghosts + 1] = seq
    end
  end
end
if #ghosts > 0 then
  for _, seq in ipairs(ghosts) do
    redis.call('HDEL', STATE, seq)
    redis.call('HDEL', PROGRESS, seq)
  end
  reply[3] = #ghosts
end
if #states > 0 then
  redis.call('HSET', STATE, unpack(states))
  redis.call('ZADD', DUE, unpack(leases))
  return reply
end
local first = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
reply[2] = first[2] and math.max(0, first[2] - now) or -1
return reply
`,
);

/**
 * Gives back what a pull took whose answer never came. ARGV: valid until, channel, nonce, and between
 * which times its leases end.
 */
export const RECOVER: Script = new Script(
  GIVE_BACK,
  `
local seqs = redis.call('ZRANGEBYSCORE', DUE, ARGV[4], ARGV[5])
local count = 0
for _, seq in ipairs(seqs) do
  local state = redis.call('HGET', STATE, seq) or ''
  local deliveries, releases, nonce = string.match(state, '^(%d+) (%d+) (.+)$')
  if nonce == ARGV[3] then
    redis.call('HSET', STATE, seq, (deliveries - 1) .. ' ' .. releases .. ' ')
    giveBack({ seq })
    count = count + 1
  end
end
if count > 0 then redis.call('PUBLISH', ARGV[2], '') end
return { now, count }
`,
);
