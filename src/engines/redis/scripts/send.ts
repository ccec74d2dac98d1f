import { HAND_OVER } from "./handover.ts";
import { QueueScript } from "./script.ts";

/**
 * Stores messages. ARGV: valid until, maximum size, seconds until an unused queue is deleted (0: never), and
 * for each message: its index, options, head, body. The index is `=<id>` for a chosen id, otherwise `#<group>`,
 * or "" for the same group as the one before. The options are `<delay>`,
 * `k<key>`, or `<delay> <time to remember the id> <priority> k<key>` with or without the key.
 *
 * When they do not fit, it stores nothing and replies with 0, the count and the number of new messages.
 * Otherwise it replies with 1, the count, the number of stored messages, the indexes of the duplicates, and
 * the last message number if any were stored. Messages are handed to waiting processes, see `handover.ts`.
 */
export const SEND: QueueScript = new QueueScript(`
-- Returns true for an id of a stored message, or one that is remembered. An id whose message was deleted is
-- free.
local function isKnown(id, options)
  local seq = redis.call('HGET', IDS, id)
  if seq and redis.call('HEXISTS', MESSAGES, seq) == 1 then return true end
  -- rarely {
  local _, remember = parseOptions(options)
  return remember > 0 and tonumber(redis.call('ZSCORE', TIMES, id) or 0) > now
  -- }
end

local fresh, duplicates, chosen = {}, {}, {}
for i = 4, #ARGV, 4 do
  local id = ARGV[i]
  if id == '' or string.byte(id) ~= 61 then -- "=": the sender chose it
    fresh[#fresh + 1] = i
  elseif chosen[id] or isKnown(id, ARGV[i + 1]) then
    duplicates[#duplicates + 1] = i / 4 - 1
  else
    chosen[id] = true
    fresh[#fresh + 1] = i
  end
end
local count = redis.call('HLEN', MESSAGES)
if count + #fresh > tonumber(ARGV[2]) then return { now, 0, count, #fresh } end
if #fresh == 0 then return { now, 1, count, 0, duplicates } end

local noneReady, notify, isDelayed = isNoneReady(), false, false
local number, start = reserveNumbers(META, MESSAGES, #fresh), recordStart()
local records, ready, due, times = {}, {}, {}, {}
-- What messages with a priority or a key need, while there are some.
local returned, traits, joining, lines

-- Writes what the loop below has collected.
local function store()
  redis.call('HSET', MESSAGES, unpack(records))
  if traits then
    -- rarely {
    redis.call('HSET', META, 'format', 2) -- version 0.1 refuses to open the queue then
    if #traits > 0 then redis.call('HSET', TRAITS, unpack(traits)) end
    local isBlocked = #joining > 0 and joinLines(joining, lines)
    if isBlocked then
      local free, places = {}, {}
      for _, seq in ipairs(ready) do
        if not isBlocked[seq] then free[#free + 1] = seq end
      end
      for i = 1, #returned, 2 do
        if not isBlocked[returned[i + 1]] then
          places[#places + 1] = returned[i]
          places[#places + 1] = returned[i + 1]
        end
      end
      ready, returned = free, places
    end
    if #returned > 0 then redis.call('ZADD', RETURNED, unpack(returned)) end
    notify = notify or noneReady and #returned > 0
    traits = nil
    -- }
  end
  if #ready > 0 then
    redis.call('RPUSH', READY, unpack(ready))
    notify = notify or noneReady
  end
  if #due > 0 then
    redis.call('ZADD', DUE, unpack(due))
    redis.call('ZADD', TIMES, unpack(times))
    notify, isDelayed = true, true
  end
  records, ready, due, times = {}, {}, {}, {}
end

local group, groupFirst, groupCount
for n, i in ipairs(fresh) do
  local id, options, delay, priority = ARGV[i], ARGV[i + 1], 0, '0'
  number = number + 1
  local seq = number .. '' -- a text once, and not in each command
  if id == '' then
    groupCount = groupCount + 1
  elseif chosen[id] then
    redis.call('HSET', IDS, id, seq)
  else
    if group then addToGroup(IDS, group, groupFirst, number - 1, groupCount) end
    group, groupFirst, groupCount = id, number, 1
  end
  records[#records + 1] = seq
  records[#records + 1] = start .. ARGV[i + 2] .. '\\n' .. ARGV[i + 3]
  if options ~= '0' then
    local remember, line = 0, options
    if string.byte(options) ~= 107 then -- "k"
      delay, remember, priority, line = parseOptions(options)
    end
    if remember > 0 then
      forgetIds(2)
      redis.call('ZADD', TIMES, at(now + remember), id)
    end
    if not traits and (line or priority ~= '0') then
      returned, traits, joining, lines = {}, {}, {}, {}
    end
    if priority ~= '0' or line and delay > 0 then
      traits[#traits + 1] = 't' .. seq
      traits[#traits + 1] = priority .. ' ' .. (line or '')
    end
    if line and delay == 0 then
      joining[#joining + 1] = seq
      lines[#joining] = line
    end
  end
  if delay > 0 then
    local dueAt = at(now + delay)
    due[#due + 1] = dueAt
    due[#due + 1] = seq
    times[#times + 1] = '-' .. dueAt
    times[#times + 1] = seq
  elseif priority == '0' then
    ready[#ready + 1] = seq
  else
    returned[#returned + 1] = rankOf(seq, priority)
    returned[#returned + 1] = seq
  end
  -- The number of arguments of one call is limited.
  if n % 1000 == 0 or n == #fresh then store() end
end
if group then addToGroup(IDS, group, groupFirst, number, groupCount) end
if ARGV[3] ~= '0' then expireUnused(ARGV[3]) end
if noneReady and redis.call('EXISTS', WAITING) == 1 then
  -- rarely {
  ${HAND_OVER}
  -- }
end
if notify then announce(META) end
return { now, 1, count, #fresh, duplicates, number }
`);
