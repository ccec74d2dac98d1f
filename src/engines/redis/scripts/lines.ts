/**
 * Priorities and keys.
 *
 * The messages of a key form a line. Only the first one can be delivered; the others are in BLOCKED. LINES is
 * a hash with a field `k<key>` for each key with messages, which has the number of the last message in its
 * line, and a field `n<seq>` for each message with a successor, which has the number of the next one. So
 * joining and leaving a line take the same time for any number of messages, and nothing remains of a key
 * without messages.
 *
 * A message is the first of its key from its first delivery until it is deleted. So a message that a worker
 * holds, or that waits for its retry, is always the first. A message with a delay joins the line when it is
 * due; it has no state before that.
 *
 * A message that is cancelled while it is blocked stays in LINES as a link, without being in BLOCKED, until
 * the messages before it are gone.
 */
export const LINES = `
-- Returns the traits of messages, by index; none has any in a queue without keys and priorities.
local function readTraits(seqs)
  return redis.call('EXISTS', TRAITS) == 1 and redis.call('HMGET', TRAITS, unpack(seqs)) or {}
end

local function keyOf(traits)
  return traits and #traits > 2 and string.sub(traits, 3) or nil
end

-- Returns the place of a message among the ready ones: ascending by number, a higher priority first. Numbers
-- stay far below the distance between two priorities, and all ranks are exact as floating-point numbers.
local function rankOf(seq, traits)
  local priority = traits and string.sub(traits, 1, 1) or '0'
  return priority == '0' and seq or at(seq - priority * 10000000000000)
end

-- Puts messages into RETURNED.
local function putBack(seqs)
  local traits, places = readTraits(seqs), {}
  for i, seq in ipairs(seqs) do
    places[#places + 1] = rankOf(seq, traits[i])
    places[#places + 1] = seq
  end
  redis.call('ZADD', RETURNED, unpack(places))
end

-- Makes messages ready that had a due time, each at its old place.
local function makeReady(seqs)
  redis.call('ZREM', DUE, unpack(seqs))
  putBack(seqs)
end

-- Appends messages to the lines of their keys. Returns a set of those that wait behind another one.
local function joinLines(seqs, keys)
  local fields, latest, links, waiting, isBlocked = {}, {}, {}, {}, {}
  for i, key in ipairs(keys) do fields[i] = 'k' .. key end
  local stored = redis.call('HMGET', LINES, unpack(fields))
  for i, seq in ipairs(seqs) do
    local field = fields[i]
    local last = latest[field] or stored[i]
    if last then
      links[#links + 1] = 'n' .. last
      links[#links + 1] = seq
      waiting[#waiting + 1] = seq
      waiting[#waiting + 1] = seq
      isBlocked[seq] = true
    end
    latest[field] = seq
    links[#links + 1] = field
    links[#links + 1] = seq
  end
  redis.call('HSET', LINES, unpack(links))
  if #waiting > 0 then redis.call('ZADD', BLOCKED, unpack(waiting)) end
  return isBlocked
end

-- Removes the first messages of keys from their lines, and makes the next ones ready. Returns how many.
local function leaveLines(seqs, keys)
  local links, ended, ready = {}, {}, {}
  for i, seq in ipairs(seqs) do links[i] = 'n' .. seq end
  local nexts = redis.call('HMGET', LINES, unpack(links))
  for i, key in ipairs(keys) do
    local link, next = links[i], nexts[i]
    while next do
      ended[#ended + 1] = link
      if redis.call('ZREM', BLOCKED, next) == 1 then break end
      link = 'n' .. next -- it was cancelled
      next = redis.call('HGET', LINES, link)
    end
    if next then ready[#ready + 1] = next else ended[#ended + 1] = 'k' .. key end
  end
  for first = 1, #ended, 1000 do
    redis.call('HDEL', LINES, unpack(ended, first, math.min(first + 999, #ended)))
  end
  if #ready > 0 then putBack(ready) end
  return #ready
end

-- Deletes the traits of messages. Those with a key must be the first of it. Returns how many messages with
-- their keys became ready.
local function deleteTraits(seqs)
  local keyed, keys = {}, {}
  for i, traits in ipairs(readTraits(seqs)) do
    local key = keyOf(traits)
    if key then
      keyed[#keyed + 1] = seqs[i]
      keys[#keyed] = key
    end
  end
  redis.call('HDEL', TRAITS, unpack(seqs))
  return #keyed > 0 and leaveLines(keyed, keys) or 0
end
`;
