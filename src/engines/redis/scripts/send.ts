import { queueScript, type Script } from "./script.ts";

/**
 * Stores messages. ARGV: valid until, maximum size, seconds until an unused queue is deleted (0: never), and
 * for each message: its id as it is in IDS, options, head, body. The options are `<delay>` or
 * `<delay> <time to remember the id> <priority> <key>`.
 *
 * When they do not fit, it stores nothing and replies with 0, the count and the number of new messages.
 * Otherwise it replies with 1, the count, the number of stored messages, the indexes of the duplicates, and
 * the last message number if any were stored.
 */
export const SEND: Script = queueScript(`
-- An id whose message was deleted is free.
local function isStored(id)
  local seq = redis.call('HGET', IDS, id)
  return seq and redis.call('HEXISTS', MESSAGES, seq) == 1
end
local function isRemembered(id)
  local ending = redis.call('ZSCORE', REMEMBERED, id)
  return ending and tonumber(ending) > now
end
local function parseOptions(options)
  if options == '0' then return 0, 0 end
  local delay, remember, traits, key = string.match(options, '^(%d+) (%d+) (%d (.*))$')
  if not delay then return tonumber(options), 0 end
  if traits == '0 ' then traits = nil end
  return tonumber(delay), tonumber(remember), traits, key ~= '' and key or nil
end

local maxSize, isRemembering = tonumber(ARGV[2]), false
local fresh, duplicates, chosen = {}, {}, {}
for i = 4, #ARGV, 4 do
  local id, isDuplicate = ARGV[i], false
  if string.byte(id) == 61 then -- "=": the sender chose it
    local _, remember = parseOptions(ARGV[i + 1])
    isDuplicate = chosen[id] or isStored(id) or remember > 0 and isRemembered(id)
    chosen[id] = chosen[id] or not isDuplicate
    isRemembering = isRemembering or remember > 0
  end
  if isDuplicate then duplicates[#duplicates + 1] = i / 4 - 1 else fresh[#fresh + 1] = i end
end
local count = redis.call('HLEN', MESSAGES)
if count + #fresh > maxSize then return { now, 0, count, #fresh } end
if #fresh == 0 then return { now, 1, count, 0, duplicates } end

local noneReady, isReady, isDelayed, hasTraits = isNoneReady(), false, false, false
local seq = reserveNumbers(META, MESSAGES, #fresh)
local ids, records, visible, due, traitsOf, traitList, joining, keys
local function reset()
  ids, records, visible, due, traitsOf, traitList, joining, keys = {}, {}, {}, {}, {}, {}, {}, {}
end
-- Writes what the loop below has collected.
local function store()
  redis.call('HSET', MESSAGES, unpack(records))
  redis.call('HSET', IDS, unpack(ids))
  local ready, returned = visible, {}
  if #traitList > 0 then
    redis.call('HSET', TRAITS, unpack(traitList))
    hasTraits = true
    local isBlocked = #joining > 0 and joinLines(joining, keys) or {}
    ready = {}
    for _, seq in ipairs(visible) do
      local rank = rankOf(seq, traitsOf[seq])
      if rank ~= seq and not isBlocked[seq] then
        returned[#returned + 1] = rank
        returned[#returned + 1] = seq
      elseif not isBlocked[seq] then
        ready[#ready + 1] = seq
      end
    end
  end
  if #ready > 0 then redis.call('RPUSH', READY, unpack(ready)) end
  if #returned > 0 then redis.call('ZADD', RETURNED, unpack(returned)) end
  if #due > 0 then
    redis.call('ZADD', DUE, unpack(due))
    redis.call('ZADD', DELAYED, unpack(due))
  end
  isReady = isReady or #ready + #returned > 0
  isDelayed = isDelayed or #due > 0
  reset()
end
reset()
for n, i in ipairs(fresh) do
  seq = seq + 1
  local delay, remember, traits, key = parseOptions(ARGV[i + 1])
  ids[#ids + 1] = ARGV[i]
  ids[#ids + 1] = seq
  records[#records + 1] = seq
  records[#records + 1] = formatRecord(ARGV[i + 2], ARGV[i + 3])
  if remember > 0 then redis.call('ZADD', REMEMBERED, at(now + remember), ARGV[i]) end
  if traits then
    traitList[#traitList + 1] = seq
    traitList[#traitList + 1] = traits
    traitsOf[seq] = traits
  end
  if delay > 0 then
    due[#due + 1] = at(now + delay)
    due[#due + 1] = seq
  else
    visible[#visible + 1] = seq
    if key then
      joining[#joining + 1] = seq
      keys[#joining] = key
    end
  end
  -- The number of arguments of one call is limited.
  if n % 1000 == 0 or n == #fresh then store() end
end
-- Version 0.1 does not know keys and priorities, and refuses to open a queue in format 2.
if hasTraits then redis.call('HSET', META, 'format', 2) end
if isRemembering then forgetIds(#fresh + 10) end
expireUnused(ARGV[3])
if isDelayed or noneReady and isReady then announce(META) end
return { now, 1, count, #fresh, duplicates, seq }
`);
