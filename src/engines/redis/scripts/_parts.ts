/**
 * A server without memory refuses commands that may need more of it, but only until a script has written
 * something: what was begun is finished. So a script that only keeps work or gives it back begins with a
 * removal, here of nothing, and is never refused. What it needs is little, and soon free again.
 */
export const UNREFUSED = `
redis.call('HDEL', META, '')
`;

/** `isFull` tells whether sends are refused. Asked first: what is refused here is a change of nothing. */
export const MEMORY = `
local function isFull()
  local answer = redis.pcall('ZADD', DUE, 'XX', '0', '')
  return type(answer) == 'table' and string.find(answer.err or '', 'OOM', 1, true) and 1 or 0
end
`;

/**
 * `wake` tells whoever waits. Receivers wait only after they have seen that nothing is in line, so the
 * first message that comes in line tells them, and those behind it need not: a busy queue makes no noise.
 * A new due time is told always, because receivers sleep until the first one they know.
 */
export const IDLE = `
local function idle()
  return redis.call('EXISTS', READY, RETURNED) == 0
end
`;

/**
 * What storing a message needs: its number and its record. A message is one field, which holds
 * `<sent at> <head>\n<body>`, so that taking it needs one look-up.
 */
export const ADD = `
local function record(head, body)
  return string.format('%.0f ', math.floor(now / 1000)) .. head .. '\\n' .. body
end
local function nextNumbers(meta, messages, count)
  local last = redis.call('HINCRBY', meta, 'seq', count)
  if last == count then
    redis.call('HSET', meta, 'format', 1)
    -- Somebody may have removed the last number: one that is in use would replace its message.
    local used = 0
    for _, seq in ipairs(redis.call('HKEYS', messages)) do used = math.max(used, tonumber(seq)) end
    if used > 0 then last = redis.call('HINCRBY', meta, 'seq', used) end
  end
  return last - count
end
`;

/**
 * `held` finds the deliveries that still have a say: a list in JSON of pulls, each with its nonce and the
 * numbers of its messages. The lease must be that of this very delivery, and must not have ended, whether
 * or not somebody has taken the message since. Whatever stands in line has no nonce any more, so that the
 * ends of leases matter only while there are some that have ended. Answers 1 when all of them are good,
 * otherwise for each 1, or 0, or 2 when the message is gone; and the numbers and states of those that are.
 */
export const HELD = `
local function held(pulls)
  local seqs, nonces = {}, {}
  for _, pull in ipairs(cjson.decode(pulls)) do
    for i = 2, #pull do
      seqs[#seqs + 1] = pull[i]
      nonces[#seqs] = pull[1]
    end
  end
  local states = redis.call('HMGET', STATE, unpack(seqs))
  local ends = #redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1') > 0
    and redis.call('ZMSCORE', DUE, unpack(seqs))
  local results, good, goodStates, seen = {}, {}, {}, {}
  for i, seq in ipairs(seqs) do
    local nonce, state = nonces[i], states[i]
    local mine = state and string.sub(state, -#nonce - 1) == ' ' .. nonce
    if mine and not seen[seq] and (not ends or ends[i] and tonumber(ends[i]) > now) then
      seen[seq] = true
      good[#good + 1] = seq
      goodStates[#good] = state
      results[i] = 1
    else
      results[i] = redis.call('HEXISTS', MESSAGES, seq) == 1 and 0 or 2
    end
  end
  return #good == #seqs and 1 or results, good, goodStates
end
`;

/** `past` reads a state: deliveries and releases, which the nonce of the delivery follows. */
export const PAST = `
local function past(state)
  local deliveries, releases = string.match(state, '^(%d+) (%d+) ')
  return deliveries, releases
end
`;

/** `forget` removes messages for good. */
export const FORGET = `
local function forget(seqs)
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('HDEL', STATE, unpack(seqs))
  redis.call('HDEL', MESSAGES, unpack(seqs))
  if redis.call('EXISTS', PROGRESS) == 1 then redis.call('HDEL', PROGRESS, unpack(seqs)) end
end
`;

/** `acknowledge` removes deliveries that have a say, and frees ids: pairs of number and id from ARGV[first]. */
export const SETTLE = `
local function acknowledge(pulls, first)
  local results, seqs = held(pulls)
  if #seqs > 0 then forget(seqs) end
  if #ARGV >= first then
    local gone = {}
    for _, seq in ipairs(seqs) do gone[seq] = true end
    for i = first, #ARGV, 2 do
      if gone[ARGV[i]] then redis.call('HDEL', IDS, ARGV[i + 1]) end
    end
  end
  return results
end
`;

/** `giveBack` puts messages back in line, at the place their number gives them. */
export const GIVE_BACK = `
local function giveBack(seqs)
  local places = {}
  for _, seq in ipairs(seqs) do
    places[#places + 1] = seq
    places[#places + 1] = seq
  end
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('ZADD', RETURNED, unpack(places))
end
`;
