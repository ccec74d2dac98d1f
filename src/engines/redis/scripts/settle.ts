import { QueueScript } from "./script.ts";

// The first results of each script are those of `checkHandles`.

/** Deletes messages. ARGV: valid until, receipt handles, and what `acknowledge` expects. */
export const ACKNOWLEDGE: QueueScript = new QueueScript(`
allowWithoutMemory()
local results, notify = acknowledge(ARGV[2], 3)
if notify then announce(META) end
return { now, results }
`);

/**
 * Extends leases; never shortens one. ARGV: valid until, receipt handles, visibility. Also replies whether
 * memory is full.
 */
export const EXTEND: QueueScript = new QueueScript(`
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
`);

/** Nacks messages. ARGV: valid until, receipt handles, delay, attempts to subtract. */
export const NACK: QueueScript = new QueueScript(`
allowWithoutMemory()
local delay, subtracted = tonumber(ARGV[3]), tonumber(ARGV[4])
local results, seqs, earlier = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
local notify = delay > 0 or isNoneReady()
local states, due, times, dueAt = {}, {}, {}, at(now + delay)
for i, seq in ipairs(seqs) do
  local deliveries, releases, expiries = parseState(earlier[i])
  states[#states + 1] = seq
  states[#states + 1] = (deliveries - subtracted) .. ' ' .. releases .. ' ' .. expiries
  due[#due + 1] = dueAt
  due[#due + 1] = seq
  times[#times + 1] = '-' .. dueAt
  times[#times + 1] = seq
end
if delay > 0 then
  redis.call('ZADD', DUE, unpack(due))
  redis.call('ZADD', TIMES, unpack(times))
else
  makeReady(seqs)
end
redis.call('HSET', STATES, unpack(states))
if notify then announce(META) end
return { now, results }
`);

/** Releases messages. ARGV: valid until, receipt handles, releases that count no attempt. */
export const RELEASE: QueueScript = new QueueScript(`
allowWithoutMemory()
local results, seqs, earlier = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
local notify = isNoneReady()
makeReady(seqs)
local states = {}
for i, seq in ipairs(seqs) do
  local deliveries, releases, expiries = parseState(earlier[i])
  local isFree = tonumber(releases) < tonumber(ARGV[3])
  states[#states + 1] = seq
  states[#states + 1] = (deliveries - (isFree and 1 or 0)) .. ' ' .. (releases + 1) .. ' ' .. expiries
end
redis.call('HSET', STATES, unpack(states))
if notify then announce(META) end
return { now, results }
`);

/**
 * Deletes a message and stores its dead letter. All keys of the dead letters follow those of the mailbox.
 * ARGV: valid until, receipt handle, the indexes of the message and of the dead letter, as SEND gets them, head
 * and body of the dead letter, seconds until an unused queue is deleted (0: never), and what is special of the
 * message, if anything.
 */
export const DEAD_LETTER: QueueScript = new QueueScript(`
allowWithoutMemory()
local results, seqs = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
if deleteLeased(seqs, { ARGV[8] }, seqs) then announce(META) end
deleteIds(ARGV[3], 1)
local deadMeta, deadReady, _, _, deadMessages, _, _, deadIds = unpack(KEYS, #KEYS - 12)
local seq = reserveNumbers(deadMeta, deadMessages, 1) + 1
redis.call('HSET', deadMessages, seq, recordStart() .. ARGV[5] .. '\\n' .. ARGV[6])
addToGroup(deadIds, ARGV[4], seq, seq, 1)
redis.call('RPUSH', deadReady, seq)
if ARGV[7] ~= '0' then expireUnused(ARGV[7]) end
announce(deadMeta)
return { now, results }
`);

/** Saves a checkpoint. ARGV: valid until, receipt handle, checkpoint. */
export const CHECKPOINT: QueueScript = new QueueScript(`
allowWithoutMemory()
local results, seqs, states = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
redis.call('HSET', CHECKPOINTS, seqs[1], ARGV[3])
local deliveries, releases, rest = string.match(states[1], '^(%d+) (%d+) (.*)$')
if releases ~= '0' then redis.call('HSET', STATES, seqs[1], deliveries .. ' 0 ' .. rest) end
return { now, results }
`);
