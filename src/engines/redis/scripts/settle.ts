import { queueScript, type Script } from "./script.ts";

// The first results of each script are those of `checkHandles`.

/** Deletes messages. ARGV: valid until, receipt handles, and for each with a chosen id: number, id. */
export const ACKNOWLEDGE: Script = queueScript(`return { now, acknowledge(ARGV[2], 3) }`);

/**
 * Extends leases; never shortens one. ARGV: valid until, receipt handles, visibility. Also replies whether
 * memory is full.
 */
export const EXTEND: Script = queueScript(`
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

/** Nacks messages. ARGV: valid until, receipt handles, channel, delay, attempts to subtract. */
export const NACK: Script = queueScript(`
allowWithoutMemory()
local delay, subtracted = tonumber(ARGV[4]), tonumber(ARGV[5])
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
if delay > 0 then redis.call('ZADD', DUE, unpack(due)) else makeReady(seqs) end
redis.call('HSET', STATES, unpack(states))
if notify then wake(ARGV[3]) end
return { now, results }
`);

/** Releases messages. ARGV: valid until, receipt handles, channel, releases that count no attempt. */
export const RELEASE: Script = queueScript(`
allowWithoutMemory()
local results, seqs, earlier = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
local notify = isNoneReady()
makeReady(seqs)
local states = {}
for i, seq in ipairs(seqs) do
  local deliveries, releases = parseState(earlier[i])
  local isFree = tonumber(releases) < tonumber(ARGV[4])
  states[#states + 1] = seq
  states[#states + 1] = (deliveries - (isFree and 1 or 0)) .. ' ' .. (releases + 1) .. ' '
end
redis.call('HSET', STATES, unpack(states))
if notify then wake(ARGV[3]) end
return { now, results }
`);

/**
 * Deletes a message and stores its dead letter, whose keys follow those of the mailbox. ARGV: valid until,
 * receipt handle, chosen id of the message or "", channel of the dead letters, head and body of the dead
 * letter.
 */
export const DEAD_LETTER: Script = queueScript(`
allowWithoutMemory()
local results, seqs = checkHandles(ARGV[2])
if #seqs == 0 then return { now, results } end
deleteMessages(seqs)
if ARGV[3] ~= '' then redis.call('HDEL', IDS, ARGV[3]) end
local deadMeta, deadReady, deadMessages = KEYS[9], KEYS[10], KEYS[13]
local seq = reserveNumbers(deadMeta, deadMessages, 1) + 1
redis.call('HSET', deadMessages, seq, formatRecord(ARGV[5], ARGV[6]))
redis.call('RPUSH', deadReady, seq)
wake(ARGV[4])
return { now, results }
`);

/** Saves a checkpoint. ARGV: valid until, receipt handle, checkpoint. */
export const CHECKPOINT: Script = queueScript(`
allowWithoutMemory()
local results, seqs = checkHandles(ARGV[2])
if #seqs > 0 then redis.call('HSET', CHECKPOINTS, seqs[1], ARGV[3]) end
return { now, results }
`);
