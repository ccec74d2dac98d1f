// The parts of RECEIVE that find what other programs or an eviction have deleted.

/** Forgets popped messages without a record, those in `bodiless`: they were cancelled, or their body was lost. */
export const FORGET_BODILESS: string = `
local function areCancelled(seqs)
  local fields = {}
  for i, seq in ipairs(seqs) do fields[i] = 'c' .. seq end
  return ipairs(redis.call('HMGET', TRAITS, unpack(fields)))
end
local missing, fields = {}, {}
for i, isCancelled in areCancelled(bodiless) do
  if not isCancelled then
    missing[#missing + 1] = bodiless[i]
    fields[#fields + 1] = 't' .. bodiless[i]
  end
end
unmark(bodiless)
if #missing > 0 then
  redis.call('HDEL', STATES, unpack(missing))
  redis.call('HDEL', CHECKPOINTS, unpack(missing))
  redis.call('HDEL', TRAITS, unpack(fields))
  lost = lost + #missing
end
-- Skips more cancelled messages at the start of READY, many at a time.
while redis.call('HEXISTS', TRAITS, 'c') == 1 do
  local seqs, count = redis.call('LRANGE', READY, 0, 999), 0
  if #seqs == 0 then break end
  for _, isCancelled in areCancelled(seqs) do
    if not isCancelled then break end
    count = count + 1
  end
  if count == 0 then break end
  redis.call('LPOP', READY, count)
  unmark({ unpack(seqs, 1, count) })
end
`;

/**
 * Makes all messages ready or blocked that are not in DUE, and sets `orphaned` to their number. Builds the lines
 * again: first the messages that were delivered, each the first of its key, and then the others in order.
 */
export const RECOVER: string = `
redis.call('UNLINK', READY, RETURNED, TRAITS, BLOCKED)
local seqs = redis.call('HKEYS', MESSAGES)
table.sort(seqs, function (a, b) return tonumber(a) < tonumber(b) end)
local lineOf = {}
-- Calls act with some numbers at a time, and the due time of each or false.
local function forEachMessage(act)
  for first = 1, #seqs, 100 do
    local some = { unpack(seqs, first, math.min(first + 99, #seqs)) }
    act(some, redis.call('ZMSCORE', DUE, unpack(some)))
  end
end
forEachMessage(function (some, dues)
  local states = redis.call('HMGET', STATES, unpack(some))
  for i, record in ipairs(redis.call('HMGET', MESSAGES, unpack(some))) do
    local priority, line = readHead(record)
    local isDelayed = dues[i] and not states[i]
    if priority ~= '0' or line and isDelayed then
      redis.call('HSET', TRAITS, 't' .. some[i], priority .. ' ' .. (line or ''))
    end
    if line and dues[i] and states[i] then redis.call('HSET', TRAITS, line, some[i]) end
    lineOf[some[i]] = line
  end
end)
forEachMessage(function (some, dues)
  local others, joining, lines = {}, {}, {}
  for i, seq in ipairs(some) do
    if not dues[i] then
      others[#others + 1] = seq
      if lineOf[seq] then
        joining[#joining + 1] = seq
        lines[#joining] = lineOf[seq]
      end
    end
  end
  local isBlocked, ready = #joining > 0 and joinLines(joining, lines) or {}, {}
  for _, seq in ipairs(others) do
    if not isBlocked[seq] then ready[#ready + 1] = seq end
  end
  if #ready > 0 then putBack(ready) end
  orphaned = orphaned + #others
end)
`;
