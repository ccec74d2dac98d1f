import { queueScript, type Script } from "./script.ts";

/** The functions of scripts that take receipt handles. */
export const HANDLES = `
-- Finds the deliveries whose receipt handles are valid. The argument is JSON: a list of receives, each with
-- its id and the numbers of its messages. Only unexpired leases can settle, even when no other worker has
-- received the message since. Ready messages have no receive id, so the ends of the leases are read only
-- when some lease has expired.
--
-- The first result is 1 when all handles are valid, otherwise a list with 1 (valid), 0 (expired) or 2 (the
-- message is gone) for each. The other results are the numbers and the states of the valid ones.
local function checkHandles(handles)
  local seqs, receiveIds = {}, {}
  for _, receive in ipairs(cjson.decode(handles)) do
    for i = 2, #receive do
      seqs[#seqs + 1] = receive[i]
      receiveIds[#seqs] = receive[1]
    end
  end
  local states = redis.call('HMGET', STATES, unpack(seqs))
  local ends = #redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1') > 0
    and redis.call('ZMSCORE', DUE, unpack(seqs))
  local results, valid, validStates, seen = {}, {}, {}, {}
  for i, seq in ipairs(seqs) do
    local receiveId, state = receiveIds[i], states[i]
    local matches = state and string.sub(state, -#receiveId - 1) == ' ' .. receiveId
    if matches and not seen[seq] and (not ends or ends[i] and tonumber(ends[i]) > now) then
      seen[seq] = true
      valid[#valid + 1] = seq
      validStates[#valid] = state
      results[i] = 1
    else
      results[i] = redis.call('HEXISTS', MESSAGES, seq) == 1 and 0 or 2
    end
  end
  return #valid == #seqs and 1 or results, valid, validStates
end

-- Deletes leased messages. Returns true when messages with their keys became ready and need a notification.
local function deleteLeased(seqs)
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('HDEL', STATES, unpack(seqs))
  redis.call('HDEL', MESSAGES, unpack(seqs))
  if redis.call('EXISTS', CHECKPOINTS) == 1 then redis.call('HDEL', CHECKPOINTS, unpack(seqs)) end
  if redis.call('EXISTS', TRAITS) == 0 then return false end
  local noneReady = isNoneReady()
  return deleteTraits(seqs) > 0 and noneReady
end

-- Deletes the messages with valid handles and their ids; ARGV has the ids from first on. The second result
-- is that of deleteLeased.
local function acknowledge(handles, first)
  local results, seqs = checkHandles(handles)
  if #seqs == 0 then return results, false end
  local notify = deleteLeased(seqs)
  local ids = {}
  if results == 1 then
    ids = { unpack(ARGV, first) }
  else
    for i, result in ipairs(results) do
      if result == 1 then ids[#ids + 1] = ARGV[first + i - 1] end
    end
  end
  redis.call('HDEL', IDS, unpack(ids))
  return results, notify
end
`;

// The first results of each script are those of `checkHandles`.

/** Deletes messages. ARGV: valid until, receipt handles, and the id of each message as it is in IDS. */
export const ACKNOWLEDGE: Script = queueScript(
  HANDLES,
  `
local results, notify = acknowledge(ARGV[2], 3)
if notify then announce(META) end
return { now, results }
`,
);

/**
 * Extends leases; never shortens one. ARGV: valid until, receipt handles, visibility. Also replies whether
 * memory is full.
 */
export const EXTEND: Script = queueScript(
  HANDLES,
  `
local full = isOutOfMemory()
allowWithoutMemory()
local results, seqs = checkHandles(ARGV[2])
local leases, leaseEnd = {}, at(now + tonumber(ARGV[3]))
for _, seq in ipairs(seqs) do
  leases[#leases + 1] = leaseEnd
  leases[#leases + 1] = seq
end
if #seqs > 0 then redis.call('ZADD', DUE, 'GT', unpack(leases)) end
return { now, results, full }
`,
);

/** Nacks messages. ARGV: valid until, receipt handles, delay, attempts to subtract. */
export const NACK: Script = queueScript(
  HANDLES,
  `
allowWithoutMemory()
local delay, subtracted = tonumber(ARGV[3]), tonumber(ARGV[4])
local results, seqs, earlier = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
local notify = delay > 0 or isNoneReady()
local states, due, dueAt = {}, {}, at(now + delay)
for i, seq in ipairs(seqs) do
  local deliveries, releases = parseState(earlier[i])
  states[#states + 1] = seq
  states[#states + 1] = (deliveries - subtracted) .. ' ' .. releases .. ' '
  due[#due + 1] = dueAt
  due[#due + 1] = seq
end
if delay > 0 then
  redis.call('ZADD', DUE, unpack(due))
  redis.call('ZADD', DELAYED, unpack(due))
else
  makeReady(seqs)
end
redis.call('HSET', STATES, unpack(states))
if notify then announce(META) end
return { now, results }
`,
);

/** Releases messages. ARGV: valid until, receipt handles, releases that count no attempt. */
export const RELEASE: Script = queueScript(
  HANDLES,
  `
allowWithoutMemory()
local results, seqs, earlier = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
local notify = isNoneReady()
makeReady(seqs)
local states = {}
for i, seq in ipairs(seqs) do
  local deliveries, releases = parseState(earlier[i])
  local isFree = tonumber(releases) < tonumber(ARGV[3])
  states[#states + 1] = seq
  states[#states + 1] = (deliveries - (isFree and 1 or 0)) .. ' ' .. (releases + 1) .. ' '
end
redis.call('HSET', STATES, unpack(states))
if notify then announce(META) end
return { now, results }
`,
);

/**
 * Deletes a message and stores its dead letter. The keys of the dead letters that it needs (META, READY,
 * MESSAGES, IDS) follow those of the mailbox. ARGV: valid until, receipt handle, the ids of the message and
 * of the dead letter as they are in IDS, head and body of the dead letter.
 */
export const DEAD_LETTER: Script = queueScript(
  HANDLES,
  `
allowWithoutMemory()
local results, seqs = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
if deleteLeased(seqs) then announce(META) end
redis.call('HDEL', IDS, ARGV[3])
local deadMeta, deadReady, deadMessages, deadIds = unpack(KEYS, 15)
local seq = reserveNumbers(deadMeta, deadMessages, 1) + 1
redis.call('HSET', deadMessages, seq, formatRecord(ARGV[5], ARGV[6]))
redis.call('HSETNX', deadIds, ARGV[4], seq)
redis.call('RPUSH', deadReady, seq)
announce(deadMeta)
return { now, results }
`,
);

/** Saves a checkpoint. ARGV: valid until, receipt handle, checkpoint. */
export const CHECKPOINT: Script = queueScript(
  HANDLES,
  `
allowWithoutMemory()
local results, seqs, states = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
redis.call('HSET', CHECKPOINTS, seqs[1], ARGV[3])
local deliveries, releases, rest = string.match(states[1], '^(%d+) (%d+) (.*)$')
if releases ~= '0' then redis.call('HSET', STATES, seqs[1], deliveries .. ' 0 ' .. rest) end
return { now, results }
`,
);
