/**
 * Hands messages over to waiting processes. A receive that finds nothing may register its owner in WAITING, with the
 * time until which SEND may choose it. SEND removes the owner, leases a message to it, and publishes the message
 * on the channel of the owner. The process sends no receive.
 *
 * The receive id of such a lease is `<owner>-0`: a message is handed over only when it is sent, so no second delivery
 * has this id. The lease is short, and its state is `1 0 0 <receive id>`, until the owner has
 * confirmed that the message has arrived. When the lease ends before that, because the notification was lost or
 * the process is frozen or blocked, the message was not delivered: neither an attempt nor an expired lease is
 * counted.
 *
 * PUBLISH reports that a dead process has no subscription. SEND then chooses the next one.
 */

import { QueueScript } from "./script.ts";

/** How long an unconfirmed lease lasts, in microseconds. */
export const UNCONFIRMED_US = 2_000_000;

/** How long SEND may choose an owner, in microseconds: receives poll twice in that time, by default. */
export const WAIT_US = 10_000_000;

/** The largest record that is published: the server disconnects a subscriber whose output buffer is full. */
const MAX_RECORD_BYTES = 65_536;

/** The part of RECEIVE that registers the waiting owner in ARGV[6] if no message was received. */
export const REGISTER_WAIT: string = `
redis.call('ZREMRANGEBYSCORE', WAITING, '-inf', at(now))
redis.call('ZADD', WAITING, at(now + ${WAIT_US}), ARGV[6])
`;

/**
 * The part of SEND that hands over messages, if no message was ready before. It hands over only messages that a
 * receive would deliver now. It chooses the owner that registered last, which is the least likely to be frozen.
 */
export const HAND_OVER: string = `
local control = redis.call('HMGET', META, 'paused', 'limit')
local mayHandOver = not control[1] and not control[2]
  and #redis.call('ZRANGEBYSCORE', DUE, '-inf', at(now), 'LIMIT', '0', '1') == 0
local channels, handed = string.sub(META, 1, -5) .. 'owner:', 0
while mayHandOver and handed < #fresh do
  -- A message with a priority comes first. Without one in this call, there is none.
  local urgent = returned and redis.call('ZRANGE', RETURNED, 0, 0)[1]
  local seq = urgent or redis.call('LINDEX', READY, 0)
  local record = seq and redis.call('HGET', MESSAGES, seq)
  if not record or #record > ${MAX_RECORD_BYTES} then break end
  local owner, validUntil = unpack(redis.call('ZPOPMAX', WAITING))
  if not owner or tonumber(validUntil) <= now then break end
  local reached = redis.pcall('PUBLISH', channels .. owner, seq .. ' ' .. at(now) .. ' ' .. record)
  if type(reached) ~= 'number' then
    -- The sender may not publish there. Others may, and the owner must not wait for a handover.
    redis.call('ZADD', WAITING, validUntil, owner)
    break
  end
  if reached > 0 then
    if urgent then redis.call('ZREM', RETURNED, seq) else redis.call('LPOP', READY) end
    redis.call('HSET', STATES, seq, '1 0 0 ' .. owner .. '-0')
    redis.call('ZADD', DUE, at(now + ${UNCONFIRMED_US}), seq)
    handed = handed + 1
  end
end
notify = isDelayed or handed < #fresh and not isNoneReady()
-- Receives look for owners that have died only while messages are leased: if none was, one has to begin.
local watcher = handed > 0 and redis.call('ZRANGE', WAITING, -1, -1)[1]
if watcher and redis.call('ZCARD', DUE) - redis.call('ZCOUNT', TIMES, '-inf', '(0') == handed then
  wake(channels .. watcher)
end
`;

/**
 * Confirms that a message that was handed over has arrived. On a repeated call, the lease has already begun and may
 * have been extended. ARGV: valid until, receipt handle, receive id, visibility.
 */
export const CONFIRM: QueueScript = new QueueScript(`
allowWithoutMemory()
local results, seqs, states = checkHandles(ARGV[2])
if #seqs > 0 and states[1] == '1 0 0 ' .. ARGV[3] then
  redis.call('HSET', STATES, seqs[1], '1 0 ' .. ARGV[3])
  redis.call('ZADD', DUE, at(now + tonumber(ARGV[4])), seqs[1])
end
return { now, results }
`);

/**
 * Ends the registration of an owner that no longer waits. Its unconfirmed messages become ready again, except those
 * that have arrived. ARGV: valid until, owner, and the numbers of the arrived messages.
 */
export const WITHDRAW: QueueScript = new QueueScript(`
allowWithoutMemory()
redis.call('ZREM', WAITING, ARGV[2])
local seqs, handed, arrived = {}, '1 0 0 ' .. ARGV[2] .. '-0', {}
for i = 3, #ARGV do arrived[ARGV[i]] = true end
local leased = redis.call('ZRANGEBYSCORE', DUE, at(now), at(now + ${UNCONFIRMED_US}))
for first = 1, #leased, 1000 do
  local some = { unpack(leased, first, math.min(first + 999, #leased)) }
  for i, state in ipairs(redis.call('HMGET', STATES, unpack(some))) do
    if state == handed and not arrived[some[i]] then seqs[#seqs + 1] = some[i] end
  end
end
if #seqs > 0 then
  redis.call('HDEL', STATES, unpack(seqs))
  makeReady(seqs)
  announce(META)
end
return { now, #seqs }
`);
