import { ADD, FORGET, GIVE_BACK, HELD, WAKE } from "./_parts.ts";
import { Script } from "./script.ts";

/** ARGV: valid until, and for each delivery: number, nonce, chosen id or "". */
export const ACKNOWLEDGE: Script = new Script(
  HELD,
  FORGET,
  `
local results, found = held(2, 3)
if #found > 0 then forget(seqsOf(found)) end
for _, it in ipairs(found) do
  local id = ARGV[it.at + 2]
  if id ~= '' then redis.call('HDEL', IDS, id) end
end
return { now, results }
`,
);

/** ARGV: valid until, visibility, and for each delivery: number, nonce. Never shortens a lease. */
export const EXTEND: Script = new Script(
  HELD,
  `
local results, found = held(3, 2)
local leases = {}
for _, it in ipairs(found) do
  leases[#leases + 1] = now + tonumber(ARGV[2])
  leases[#leases + 1] = it.seq
end
if #found > 0 then redis.call('ZADD', DUE, 'GT', unpack(leases)) end
return { now, results }
`,
);

/** ARGV: valid until, channel, delay, attempts to give back, and for each delivery: number, nonce. */
export const RETRY: Script = new Script(
  HELD,
  GIVE_BACK,
  WAKE,
  `
local delay, restored = tonumber(ARGV[3]), tonumber(ARGV[4])
local results, found = held(5, 2)
if #found == 0 then return { now, results } end
local tell = delay > 0 or idle()
local states, leases = {}, {}
for _, it in ipairs(found) do
  states[#states + 1] = it.seq
  states[#states + 1] = (it.deliveries - restored) .. ' ' .. it.releases .. ' '
  leases[#leases + 1] = now + delay
  leases[#leases + 1] = it.seq
end
if delay > 0 then redis.call('ZADD', DUE, unpack(leases)) else giveBack(seqsOf(found)) end
redis.call('HSET', STATE, unpack(states))
if tell then wake(ARGV[2]) end
return { now, results }
`,
);

/** ARGV: valid until, channel, free releases, and for each delivery: number, nonce. */
export const RELEASE: Script = new Script(
  HELD,
  GIVE_BACK,
  WAKE,
  `
local results, found = held(4, 2)
if #found == 0 then return { now, results } end
local tell = idle()
-- First, because a server without memory lets what has begun with a removal go on.
giveBack(seqsOf(found))
local states = {}
for _, it in ipairs(found) do
  local free = tonumber(it.releases) < tonumber(ARGV[3])
  states[#states + 1] = it.seq
  states[#states + 1] = (it.deliveries - (free and 1 or 0)) .. ' ' .. (it.releases + 1) .. ' '
end
redis.call('HSET', STATE, unpack(states))
if tell then wake(ARGV[2]) end
return { now, results }
`,
);

/**
 * Moves a message to the dead letters, whose keys follow those of the mailbox. ARGV: valid until, the
 * dead letters' channel, head and body of the letter, chosen id or "", number, nonce.
 */
export const BURY: Script = new Script(
  HELD,
  FORGET,
  ADD,
  `
local results, found = held(6, 2)
if #found == 0 then return { now, results } end
forget(seqsOf(found))
if ARGV[5] ~= '' then redis.call('HDEL', IDS, ARGV[5]) end
local meta, ready, messages = KEYS[9], KEYS[10], KEYS[13]
local seq = nextNumbers(meta, 1) + 1
redis.call('HSET', messages, seq, record(ARGV[3], ARGV[4]))
redis.call('RPUSH', ready, seq)
redis.call('PUBLISH', ARGV[2], '')
return { now, results }
`,
);

/** ARGV: valid until, progress, number, nonce. */
export const CHECKPOINT: Script = new Script(
  HELD,
  `
local results, found = held(3, 2)
if #found > 0 then redis.call('HSET', PROGRESS, found[1].seq, ARGV[2]) end
return { now, results }
`,
);
