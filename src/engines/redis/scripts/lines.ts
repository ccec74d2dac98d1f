/**
 * Priorities and keys. The head of a record has both, see `_delivery.ts`; TRAITS has what scripts need of them
 * without reading records:
 *
 * - `t<seq>` is `<priority> <line>` for a message with a priority, and for a delayed message with a key.
 * - `k<key>`, which is called the line of a key, is the number of the last message in it.
 * - `n<seq>` is the number of the message after this one in the line of its key.
 * - `c<seq>` marks a message that was cancelled in READY or BLOCKED, and `c` is the number of those.
 *
 * The messages of a key form a line. Only the first one can be delivered; the others are in BLOCKED. Joining
 * and leaving a line take the same time for any number of messages, and nothing remains of a key without
 * messages.
 *
 * A message is the first of its key from its first delivery until it is deleted. So a message that a worker
 * holds, or that waits for its retry, is always the first. A message with a delay joins the line when it is
 * due; it has no state before that.
 *
 * A message that is cancelled in READY stays there until a receive skips it, because deleting from a long list
 * is slow. One that is cancelled in BLOCKED stays there as a link to the next, until those before it are gone.
 */
export const LINES = `
-- Returns the traits of messages, by index; none has any in a queue without keys and priorities.
local function readTraits(seqs)
  if redis.call('EXISTS', TRAITS) == 0 then return {} end
  local fields = {}
  for i, seq in ipairs(seqs) do fields[i] = 't' .. seq end
  return redis.call('HMGET', TRAITS, unpack(fields))
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

-- Makes leased messages ready, each at its old place.
local function makeReady(seqs)
  redis.call('ZREM', DUE, unpack(seqs))
  putBack(seqs)
end

-- Appends messages to the lines of their keys. Returns a set of those that wait behind another one, or nil.
local function joinLines(seqs, lines)
  local lasts, fields = redis.call('HMGET', TRAITS, unpack(lines)), {}
  for i, line in ipairs(lines) do
    fields[2 * i - 1] = line
    fields[2 * i] = seqs[i]
  end
  if redis.call('HSET', TRAITS, unpack(fields)) == #lines then return nil end -- all lines are new
  local latest, links, waiting, isBlocked = {}, {}, {}, {}
  for i, seq in ipairs(seqs) do
    local line = lines[i]
    local last = latest[line] or lasts[i]
    if last then
      links[#links + 1] = 'n' .. last
      links[#links + 1] = seq
      waiting[#waiting + 1] = seq
      waiting[#waiting + 1] = seq
      isBlocked[seq] = true
    end
    latest[line] = seq
  end
  redis.call('HSET', TRAITS, unpack(links))
  redis.call('ZADD', BLOCKED, unpack(waiting))
  return isBlocked
end

-- Deletes the marks of cancelled messages.
local function unmark(seqs)
  local fields = {}
  for i, seq in ipairs(seqs) do fields[i] = 'c' .. seq end
  local deleted = redis.call('HDEL', TRAITS, unpack(fields))
  if deleted > 0 and redis.call('HINCRBY', TRAITS, 'c', -deleted) <= 0 then
    redis.call('HDEL', TRAITS, 'c')
  end
  return deleted
end

-- Removes messages that are the first of their keys from the lines, and makes the next ones ready. Returns
-- how many.
local function leaveLines(seqs, lines)
  if redis.call('EXISTS', BLOCKED) == 0 then
    redis.call('HDEL', TRAITS, unpack(lines))
    return 0
  end
  local ready = {}
  for i, line in ipairs(lines) do
    local seq = seqs[i]
    repeat
      local next = redis.call('HGET', TRAITS, 'n' .. seq)
      redis.call('HDEL', TRAITS, next and 'n' .. seq or line)
      seq = next
      if next then redis.call('ZREM', BLOCKED, next) end
    until not next or unmark({ next }) == 0
    if seq then ready[#ready + 1] = seq end
  end
  if #ready > 0 then putBack(ready) end
  return #ready
end
`;
