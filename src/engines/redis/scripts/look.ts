import { Script } from "./script.ts";

/**
 * Refuses keys that are not ours before anything is done with them. Answers the format, 0 for none yet,
 * or the key that is in the way.
 */
export const GREET: Script = new Script(`
local types = { 'hash', 'list', 'zset', 'zset', 'hash', 'hash', 'hash', 'hash' }
for i, key in ipairs(KEYS) do
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= types[i] then return { now, -1, key, type } end
end
return { now, tonumber(redis.call('HGET', META, 'format') or 0) or -2 }
`);

/** Answers how many messages there are. */
export const COUNT: Script = new Script(`return { now, redis.call('HLEN', MESSAGES) }`);

/** Removes all but the last number: one that is used again would make old receipts good again. */
export const PURGE: Script = new Script(`
local count = redis.call('HLEN', MESSAGES)
redis.call('UNLINK', READY, RETURNED, DUE, MESSAGES, STATE, PROGRESS, IDS)
return { now, count }
`);

/**
 * The oldest messages. ARGV: valid until, max. What is hidden stands in the order of its due time: of
 * more than 10 000 only those that are due first are looked at.
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

/** Answers which keys the server removes when its memory is full; "" where the user may not ask. */
export const POLICY: Script = new Script(`
local info = redis.pcall('INFO', 'memory')
return { now, type(info) == 'string' and string.match(info, 'maxmemory_policy:(%S+)') or '' }
`);
