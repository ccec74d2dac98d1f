import { Script } from "../../engines/redis/redis_link.ts";

/**
 * A board is a hash of records, a hash of when each agent was last alive, and a sorted set of who was
 * written when. A record is `<state> <milliseconds> <JSON>`: the state is checked and the time is given
 * where it is stored, and the scripts treat the JSON as opaque.
 */
const BOARD = `
local RECORDS, SEEN, VERSIONS, VERSION = unpack(KEYS)
local function stateOf(record)
  if not record then return 'unknown' end
  local state, detail = string.match(record, '^([%l_]+) %d+ (.*)$')
  if not state or not pcall(cjson.decode, detail) then return 'corrupt' end
  if state == 'running' or state == 'shutting_down' or state == 'shutdown_complete' then
    return state
  end
  return 'corrupt'
end
`;

/** Writes what may be written. For each agent: its id, state, detail, and what may be there before. */
export const PUT: Script = new Script(
  BOARD,
  `
local before = {}
local wrote = false
for i = 3, #ARGV, 4 do
  local id = ARGV[i]
  local was = stateOf(redis.call('HGET', RECORDS, id))
  before[#before + 1] = was
  if string.find(ARGV[i + 3], ' ' .. was .. ' ', 1, true) then
    local record = ARGV[i + 1] .. ' ' .. at(math.floor(now / 1000)) .. ' ' .. ARGV[i + 2]
    redis.call('HSET', RECORDS, id, record)
    redis.call('HSET', SEEN, id, at(now))
    redis.call('ZADD', VERSIONS, redis.call('INCR', VERSION), id)
    wrote = true
  end
end
if wrote then wake(ARGV[2]) end
return { now, before }
`,
);

/** These are alive. */
export const TOUCH: Script = new Script(
  BOARD,
  `
for i = 2, #ARGV do
  if redis.call('HEXISTS', RECORDS, ARGV[i]) == 1 then redis.call('HSET', SEEN, ARGV[i], at(now)) end
end
return { now, 1 }
`,
);

/** Removes records. */
export const REMOVE: Script = new Script(
  BOARD,
  `
for i = 3, #ARGV do
  redis.call('HDEL', RECORDS, ARGV[i])
  redis.call('HDEL', SEEN, ARGV[i])
  redis.call('ZREM', VERSIONS, ARGV[i])
end
wake(ARGV[2])
return { now, 1 }
`,
);

/** Ids, records, and when each was last alive. */
const TELL = `
local function tell(ids)
  local found = {}
  for _, id in ipairs(ids) do
    local record = redis.call('HGET', RECORDS, id)
    if record then
      found[#found + 1] = id
      found[#found + 1] = record
      found[#found + 1] = redis.call('HGET', SEEN, id) or '0'
    end
  end
  return found
end
`;

/** Those that are asked for. */
export const READ: Script = new Script(
  BOARD,
  TELL,
  `
local ids = {}
for i = 2, #ARGV do ids[#ids + 1] = ARGV[i] end
return { now, tell(ids) }
`,
);

/** Those that were written after a version, all of them with none. */
export const LIST: Script = new Script(
  BOARD,
  TELL,
  `
local ids = ARGV[2] == '' and redis.call('HKEYS', RECORDS) or
  redis.call('ZRANGEBYSCORE', VERSIONS, '(' .. ARGV[2], '+inf')
return { now, tell(ids), redis.call('GET', VERSION) or '0' }
`,
);
