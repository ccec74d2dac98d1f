import { Script } from "./script.ts";

/**
 * Checks the types of the keys before another script uses them. Replies with the format (0: the queue is
 * new), or with -1 and the key that has another type.
 */
export const FORMAT: Script = new Script(`
local types = { 'hash', 'list', 'zset', 'zset', 'hash', 'hash', 'hash', 'hash' }
for i, key in ipairs(KEYS) do
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= types[i] then return { now, -1, key, type } end
end
return { now, tonumber(redis.call('HGET', META, 'format') or 0) or -2 }
`);

/** Replies with the number of messages. */
export const COUNT: Script = new Script(`return { now, redis.call('HLEN', MESSAGES) }`);

/** Deletes everything but the last number: a number used twice would make old receipts valid again. */
export const PURGE: Script = new Script(`
local count = redis.call('HLEN', MESSAGES)
redis.call('UNLINK', READY, RETURNED, DUE, MESSAGES, STATE, PROGRESS, IDS)
return { now, count }
`);

/**
 * Replies with the oldest messages. ARGV: valid until, max. Hidden messages are sorted by due time, so of
 * more than 10 000 it considers only those that are due first.
 */
export const PEEK: Script = new Script(`
local max = tonumber(ARGV[2])
local seqs = redis.call('LRANGE', READY, 0, max - 1)
for _, seq in ipairs(redis.call('ZRANGE', RETURNED, 0, max - 1)) do seqs[#seqs + 1] = seq end
for _, seq in ipairs(redis.call('ZRANGE', DUE, 0, 9999)) do seqs[#seqs + 1] = seq end
table.sort(seqs, function (a, b) return tonumber(a) < tonumber(b) end)
local reply = { now, 0 }
for _, seq in ipairs(seqs) do
  if #reply >= max * 4 + 2 then break end
  local record = redis.call('HGET', MESSAGES, seq)
  if record then
    reply[#reply + 1] = seq
    reply[#reply + 1] = tonumber(string.match(redis.call('HGET', STATE, seq) or '0', '^%d+'))
    reply[#reply + 1] = record
    reply[#reply + 1] = redis.call('HGET', PROGRESS, seq)
  end
end
return reply
`);

/** Replies with the eviction policy of the server; "" when the user may not read it. */
export const POLICY: Script = new Script(`
local info = redis.pcall('INFO', 'memory')
return { now, type(info) == 'string' and string.match(info, 'maxmemory_policy:(%S+)') or '' }
`);
