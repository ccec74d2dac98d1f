import { ADD, IDLE } from "./_parts.ts";
import { Script } from "./script.ts";

/**
 * Stores messages. ARGV: valid until, channel, maximum size, and for each message: chosen id or "", delay,
 * head, body. When they do not fit, it stores nothing and replies with 0, the count and the number of new
 * messages. Otherwise it replies with 1, the count, the number of stored messages, the indexes of the
 * duplicates, and the last message number if any were stored.
 */
export const PUSH: Script = new Script(
  ADD,
  IDLE,
  `
-- An id whose message was deleted is free.
local function there(id)
  local seq = redis.call('HGET', IDS, id)
  return seq and redis.call('HEXISTS', MESSAGES, seq) == 1
end
local channel, room = ARGV[2], tonumber(ARGV[3])
local fresh, duplicates, chosen = {}, {}, {}
for i = 4, #ARGV, 4 do
  local id = ARGV[i]
  if id ~= '' and (chosen[id] or there(id)) then
    duplicates[#duplicates + 1] = i / 4 - 1
  else
    chosen[id] = id ~= ''
    fresh[#fresh + 1] = i
  end
end
local count = redis.call('HLEN', MESSAGES)
if count + #fresh > room then return { now, 0, count, #fresh } end
if #fresh == 0 then return { now, 1, count, 0, duplicates } end

local tell = idle()
local seq = nextNumbers(META, MESSAGES, #fresh)
local records, ready, due = {}, {}, {}
local function flush()
  redis.call('HSET', MESSAGES, unpack(records))
  if #ready > 0 then redis.call('RPUSH', READY, unpack(ready)) end
  if #due > 0 then redis.call('ZADD', DUE, unpack(due)) end
  tell = tell or #due > 0
  records, ready, due = {}, {}, {}
end
for n, i in ipairs(fresh) do
  seq = seq + 1
  local id, delay = ARGV[i], tonumber(ARGV[i + 1])
  if id ~= '' then redis.call('HSET', IDS, id, seq) end
  records[#records + 1] = seq
  records[#records + 1] = record(ARGV[i + 2], ARGV[i + 3])
  if delay == 0 then
    ready[#ready + 1] = seq
  else
    due[#due + 1] = now + delay
    due[#due + 1] = seq
  end
  -- The number of arguments of one call is limited.
  if n % 1000 == 0 or n == #fresh then flush() end
end
if tell then wake(channel) end
return { now, 1, count, #fresh, duplicates, seq }
`,
);
