/**
 * `wake` tells whoever waits. Receivers wait only after they have seen that nothing is in line, so the
 * first message that comes in line tells them, and those behind it need not: a busy queue makes no noise.
 * A new due time is told always, because receivers sleep until the first one they know.
 */
export const WAKE = `
local function idle()
  return redis.call('EXISTS', READY, RETURNED) == 0
end
local function wake(channel)
  redis.call('PUBLISH', channel, '')
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
local function nextNumbers(meta, count)
  local last = redis.call('HINCRBY', meta, 'seq', count)
  if last == count then redis.call('HSET', meta, 'format', 1) end
  return last - count
end
`;

/**
 * `held` finds the deliveries that still have a say: pairs of number and nonce from ARGV[first] on. The
 * lease must be that of this very delivery, and must not have ended, whether or not somebody has taken
 * the message since.
 */
export const HELD = `
local function held(first, step)
  local seqs, results, found = {}, {}, {}
  for i = first, #ARGV, step do seqs[#seqs + 1] = ARGV[i] end
  local states = redis.call('HMGET', STATE, unpack(seqs))
  local ends = redis.call('ZMSCORE', DUE, unpack(seqs))
  local seen = {}
  for i, seq in ipairs(seqs) do
    local deliveries, releases, nonce = string.match(states[i] or '', '^(%d+) (%d+) (.+)$')
    local good = nonce == ARGV[first + (i - 1) * step + 1] and ends[i] and tonumber(ends[i]) > now
      and not seen[seq]
    results[i] = good and 1 or 0
    if good then
      seen[seq] = true
      found[#found + 1] =
        { seq = seq, at = first + (i - 1) * step, deliveries = deliveries, releases = releases }
    end
  end
  return results, found
end
local function seqsOf(found)
  local seqs = {}
  for i, it in ipairs(found) do seqs[i] = it.seq end
  return seqs
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
