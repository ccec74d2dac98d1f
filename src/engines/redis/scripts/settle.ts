import { ADD, FORGET, GIVE_BACK, HELD, IDLE, MEMORY, PAST, SETTLE, UNREFUSED } from "./_parts.ts";
import { Script } from "./script.ts";

/** Deletes messages. ARGV: valid until, deliveries, and for each with a chosen id: number, id. */
export const ACKNOWLEDGE: Script = new Script(
  HELD,
  FORGET,
  SETTLE,
  `return { now, acknowledge(ARGV[2], 3) }`,
);

/**
 * Extends leases; never shortens one. ARGV: valid until, deliveries, visibility. Also replies whether memory
 * is full.
 */
export const EXTEND: Script = new Script(
  MEMORY,
  `local full = isFull()`,
  UNREFUSED,
  HELD,
  `
local results, seqs = held(ARGV[2])
local leases, untilThen = {}, at(now + tonumber(ARGV[3]))
for _, seq in ipairs(seqs) do
  leases[#leases + 1] = untilThen
  leases[#leases + 1] = seq
end
if #seqs > 0 then redis.call('ZADD', DUE, 'GT', unpack(leases)) end
return { now, results, full }
`,
);

/** Nacks messages. ARGV: valid until, deliveries, channel, delay, attempts to subtract from the count. */
export const RETRY: Script = new Script(
  UNREFUSED,
  HELD,
  PAST,
  GIVE_BACK,
  IDLE,
  `
local delay, restored = tonumber(ARGV[4]), tonumber(ARGV[5])
local results, seqs, before = held(ARGV[2])
if #seqs == 0 then return { now, results } end
local tell = delay > 0 or idle()
local states, leases, untilThen = {}, {}, at(now + delay)
for i, seq in ipairs(seqs) do
  local deliveries, releases = past(before[i])
  states[#states + 1] = seq
  states[#states + 1] = (deliveries - restored) .. ' ' .. releases .. ' '
  leases[#leases + 1] = untilThen
  leases[#leases + 1] = seq
end
if delay > 0 then redis.call('ZADD', DUE, unpack(leases)) else giveBack(seqs) end
redis.call('HSET', STATE, unpack(states))
if tell then wake(ARGV[3]) end
return { now, results }
`,
);

/** Releases messages. ARGV: valid until, deliveries, channel, releases that do not count as a delivery. */
export const RELEASE: Script = new Script(
  UNREFUSED,
  HELD,
  PAST,
  GIVE_BACK,
  IDLE,
  `
local results, seqs, before = held(ARGV[2])
if #seqs == 0 then return { now, results } end
local tell = idle()
giveBack(seqs)
local states = {}
for i, seq in ipairs(seqs) do
  local deliveries, releases = past(before[i])
  local free = tonumber(releases) < tonumber(ARGV[4])
  states[#states + 1] = seq
  states[#states + 1] = (deliveries - (free and 1 or 0)) .. ' ' .. (releases + 1) .. ' '
end
redis.call('HSET', STATE, unpack(states))
if tell then wake(ARGV[3]) end
return { now, results }
`,
);

/**
 * Moves a message to the dead letters, whose keys follow those of the mailbox. ARGV: valid until, the
 * delivery, the dead letters' channel, head and body of the dead letter, chosen id or "".
 */
export const BURY: Script = new Script(
  UNREFUSED,
  HELD,
  FORGET,
  ADD,
  `
local results, seqs = held(ARGV[2])
if #seqs == 0 then return { now, results } end
forget(seqs)
if ARGV[6] ~= '' then redis.call('HDEL', IDS, ARGV[6]) end
local meta, ready, messages = KEYS[9], KEYS[10], KEYS[13]
local seq = nextNumbers(meta, messages, 1) + 1
redis.call('HSET', messages, seq, record(ARGV[4], ARGV[5]))
redis.call('RPUSH', ready, seq)
wake(ARGV[3])
return { now, results }
`,
);

/** Saves a checkpoint. ARGV: valid until, the delivery, the checkpoint. */
export const CHECKPOINT: Script = new Script(
  UNREFUSED,
  HELD,
  `
local results, seqs = held(ARGV[2])
if #seqs > 0 then redis.call('HSET', PROGRESS, seqs[1], ARGV[3]) end
return { now, results }
`,
);
