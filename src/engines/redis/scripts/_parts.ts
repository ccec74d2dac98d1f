/**
 * A server without memory refuses write commands of a script only until the script has written something.
 * A script that extends or releases begins with a deletion (here of nothing), so that the server never
 * refuses it. Such a script needs little memory, and only for a short time.
 */
export const UNREFUSED = `
redis.call('HDEL', META, '')
`;

/** `isFull` returns 1 when the server refuses sends. It runs first; its test command changes nothing. */
export const MEMORY = `
local function isFull()
  local answer = redis.pcall('ZADD', DUE, 'XX', '0', '')
  return type(answer) == 'table' and string.find(answer.err or '', 'OOM', 1, true) and 1 or 0
end
`;

/**
 * `idle` returns true when no message is ready. Receivers wait only while no message is ready, so only the
 * first ready message needs a notification: a busy queue publishes none. A new due time always needs one,
 * because receivers sleep until the first due time they know.
 */
export const IDLE = `
local function idle()
  return redis.call('EXISTS', READY, RETURNED) == 0
end
`;

/**
 * `nextNumbers` reserves message numbers, and `record` formats a message. A message is one hash field,
 * `<sent at> <head>\n<body>`, so that a pull needs one lookup.
 */
export const ADD = `
local function record(head, body)
  return string.format('%.0f ', math.floor(now / 1000)) .. head .. '\\n' .. body
end
local function nextNumbers(meta, messages, count)
  local last = redis.call('HINCRBY', meta, 'seq', count)
  if last == count then
    redis.call('HSET', meta, 'format', 1)
    -- Another program may have deleted the counter: a number in use would overwrite its message.
    local used = 0
    for _, seq in ipairs(redis.call('HKEYS', messages)) do used = math.max(used, tonumber(seq)) end
    if used > 0 then last = redis.call('HINCRBY', meta, 'seq', used) end
  end
  return last - count
end
`;

/**
 * `held` returns the deliveries whose lease has not expired. Its argument is JSON: a list of pulls, each
 * with its nonce and the numbers of its messages. Only unexpired leases can settle, even when no other
 * worker has received the message since. Ready messages have no nonce, so `held` reads the ends of the
 * leases only when some lease has expired.
 *
 * The first result is 1 when all deliveries are valid, otherwise a list with 1 (valid), 0 (expired) or 2
 * (the message is gone) for each. The other results are the numbers and the states of the valid ones.
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

/** `past` parses a state: `<deliveries> <releases> <nonce>`. */
export const PAST = `
local function past(state)
  local deliveries, releases = string.match(state, '^(%d+) (%d+) ')
  return deliveries, releases
end
`;

/** `forget` deletes messages. */
export const FORGET = `
local function forget(seqs)
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('HDEL', STATE, unpack(seqs))
  redis.call('HDEL', MESSAGES, unpack(seqs))
  if redis.call('EXISTS', PROGRESS) == 1 then redis.call('HDEL', PROGRESS, unpack(seqs)) end
end
`;

/** `acknowledge` deletes the messages of valid deliveries, and frees ids: pairs of number and id from ARGV[first]. */
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

/** `giveBack` makes messages ready again, in the order of their numbers. */
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
