/**
 * The owners of a queue: the mailboxes that receive from it, one or more of each worker process. The receive ids
 * of an owner begin with its id and "-". It subscribes to a channel of its own, so that the server knows whether
 * its process is alive: the subscription ends with the process, and a frozen process keeps it.
 *
 * OWNERS has the run id of the server by owner, as it was when the owner registered. A server that has been
 * restarted, or a replica that has replaced it, has another run id. It cannot judge an owner that has not
 * registered since, and forgets it.
 */

import { QueueScript } from "./script.ts";

const RUN_ID = `
-- Returns the run id of the server; nil and the reason where owners cannot be judged.
local function readRunId()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return nil, 'the user may not run INFO' end
  if string.find(info, '_mode:cluster', 1, true) then return nil, 'the server is part of a cluster' end
  return string.match(info, 'run_id:(%x+)'), 'the server has no run id'
end

-- Returns how many connections subscribe to each of the channels, by their names; nil without the permission.
local function countSubscribers(channels)
  local found, counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels)), {}
  if found.err then return nil end
  for i = 1, #found, 2 do counts[found[i]] = found[i + 1] end
  return counts
end
`;

/**
 * Registers an owner that has subscribed to its channel. ARGV: valid until, owner, channel. Replies with "", or
 * with the reason why the server cannot tell that the owner is alive.
 */
export const REGISTER: QueueScript = new QueueScript(`
${RUN_ID}
allowWithoutMemory()
local run, reason = readRunId()
if not run then return { now, reason } end
local counts = countSubscribers({ ARGV[3] })
if not counts then return { now, 'the user may not run PUBSUB' } end
if counts[ARGV[3]] == 0 then return { now, 'the server does not see the subscription' } end
redis.call('HSET', OWNERS, ARGV[2], run)
return { now, '' }
`);

/** Removes an owner that closes. ARGV: valid until, owner. */
export const UNREGISTER: QueueScript = new QueueScript(`
return { now, redis.call('HDEL', OWNERS, ARGV[2]) }
`);

/**
 * Replies with 1 or 0 for whether an owner is registered, and with the owners that have no subscription now.
 * ARGV: valid until, owner, how the names of the channels begin.
 *
 * The time that it takes grows with the number of owners, and each of them asks. Where there are many, the
 * field "absent" has the answer, which holds for half a second.
 */
export const ABSENT: QueueScript = new QueueScript(`
${RUN_ID}
local isRegistered = redis.call('HEXISTS', OWNERS, ARGV[2])
local at0, known = string.match(redis.call('HGET', OWNERS, 'absent') or '', '^(%d+)(.*)$')
local absent = {}
if at0 and tonumber(at0) <= now and now - at0 < 500000 then
  for owner in string.gmatch(known, '%S+') do absent[#absent + 1] = owner end
  return { now, isRegistered, absent }
end
local run = readRunId()
if not run then return { now, isRegistered, absent } end
local owners = redis.call('HGETALL', OWNERS)
for first = 1, #owners, 1000 do
  local some, channels = {}, {}
  for i = first, math.min(first + 999, #owners), 2 do
    if owners[i + 1] == run then
      some[#some + 1] = owners[i]
      channels[#some] = ARGV[3] .. owners[i]
    elseif owners[i] ~= 'absent' or #owners <= 40 then
      redis.call('HDEL', OWNERS, owners[i])
    end
  end
  local counts = #some > 0 and countSubscribers(channels) or {}
  for i, owner in ipairs(some) do
    if counts[channels[i]] == 0 then absent[#absent + 1] = owner end
  end
end
if #owners > 40 then
  allowWithoutMemory()
  redis.call('HSET', OWNERS, 'absent', at(now) .. ' ' .. table.concat(absent, ' '))
end
return { now, isRegistered, absent }
`);

/**
 * Ends the leases of an owner that has died, in steps, and removes the owner with the last step. ARGV: valid
 * until, owner, channel, cursor. Replies with the next cursor, and with the number of messages that became
 * ready. Does nothing when the owner is back, or when the server has been restarted.
 */
export const EXPIRE_LEASES: QueueScript = new QueueScript(`
${RUN_ID}
allowWithoutMemory()
local run, counts = readRunId(), countSubscribers({ ARGV[3] })
if not run or redis.call('HGET', OWNERS, ARGV[2]) ~= run or not counts or counts[ARGV[3]] ~= 0 then
  return { now, '0', 0 }
end
local page, count = redis.call('HSCAN', STATES, ARGV[4], 'COUNT', '500'), 0
for i = 1, #page[2], 2 do
  local seq, state = page[2][i], page[2][i + 1]
  if string.find(state, ' ' .. ARGV[2] .. '-', 1, true) then
    redis.call('HSET', STATES, seq, readyState(state))
    makeReady({ seq })
    count = count + 1
  end
end
if page[1] == '0' then redis.call('HDEL', OWNERS, ARGV[2]) end
if count > 0 then announce(META) end
return { now, page[1], count }
`);
