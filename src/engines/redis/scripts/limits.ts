/**
 * The pause and the rate limit of a queue, which are those of `QueueControl`. They are fields of META:
 *
 * - `paused` is the time until which the queue is paused, or 1 until it is resumed.
 * - `limit` is `<max> <perMs>`.
 * - `counts` has the number of a part of a period, counted from time 0, and its deliveries, in turn.
 */

import { QueueScript } from "./script.ts";

/** How many parts a period has, as in `QueueControl`. */
const PARTS = 50;

/**
 * Stops the deliveries. ARGV: valid until, for how many microseconds (-1: until they are resumed, 0: resumes
 * them). Never shortens a pause.
 */
export const PAUSE: QueueScript = new QueueScript(`
allowWithoutMemory()
local duration, paused = tonumber(ARGV[2]), redis.call('HGET', META, 'paused')
if duration == 0 then
  redis.call('HDEL', META, 'paused')
elseif duration < 0 then
  redis.call('HSET', META, 'paused', 1)
elseif paused ~= '1' then
  redis.call('HSET', META, 'paused', at(math.max(paused or 0, now + duration)))
end
announce(META)
return { now, 1 }
`);

/** Sets the rate limit, or ends it. ARGV: valid until, and max and perMs or nothing. */
export const LIMIT: QueueScript = new QueueScript(`
allowWithoutMemory()
local period = string.match(redis.call('HGET', META, 'limit') or '', ' (.*)$')
if period ~= ARGV[3] then redis.call('HDEL', META, 'counts') end
if ARGV[3] then
  redis.call('HSET', META, 'limit', ARGV[2] .. ' ' .. ARGV[3])
else
  redis.call('HDEL', META, 'limit')
end
announce(META)
return { now, 1 }
`);

/**
 * The part of RECEIVE for a queue with a pause or a limit, the values of `control`. Sets `wait` to the
 * microseconds until messages may be delivered (-1: when the queue is resumed) or leaves it nil. With a limit,
 * reduces `max`, and sets `part` to the length of a part and `counts` to the counts that are not over.
 */
export const ALLOW: string = `
local paused, limit = unpack(control)
local wait
if paused == '1' then
  wait = -1
elseif paused and tonumber(paused) > now then
  wait = paused - now
elseif paused then
  redis.call('HDEL', META, 'paused')
end
if limit and not wait then
  local most, period = string.match(limit, '^(%S+) (.*)$')
  local delivered = 0
  period = period * 1000
  counts, part = {}, period / ${PARTS}
  local current = math.floor(now / part)
  for number, count in string.gmatch(redis.call('HGET', META, 'counts') or '', '(%d+) (%d+)') do
    -- A part in the future was counted before the clock was set back. Only the numbers of parts are exact.
    if (number + 1) * part + period > now and tonumber(number) <= current then
      counts[#counts + 1] = number
      counts[#counts + 1] = count
      delivered = delivered + count
    end
  end
  max = math.min(max, most - delivered)
  if max <= 0 then wait = math.max(1000, math.ceil((counts[1] + 1) * part + period - now)) end
end
`;

/** The part of RECEIVE that counts the deliveries in `seqs`. */
export const COUNT_DELIVERED: string = `
local number = at(math.floor(now / part))
if counts[#counts - 1] == number then
  counts[#counts] = counts[#counts] + #seqs
else
  counts[#counts + 1] = number
  counts[#counts + 1] = #seqs
end
redis.call('HSET', META, 'counts', table.concat(counts, ' '))
`;
