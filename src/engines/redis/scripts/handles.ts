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
  if redis.call('EXISTS', TRAITS) == 1 then
    -- rarely {
    local noneReady = redis.call('EXISTS', READY, RETURNED) == 0
    return deleteTraits(seqs) > 0 and noneReady
    -- }
  end
  return false
end

-- Deletes the messages with valid handles and their ids. ARGV has pairs from first on: the index of a message,
-- as SEND gets it, and how many messages in a row have the same. The second result is that of deleteLeased.
local function acknowledge(handles, first)
  local results, seqs = checkHandles(handles)
  if #seqs == 0 then return results, false end
  local notify, index = deleteLeased(seqs), 0
  for i = first, #ARGV, 2 do
    local count = tonumber(ARGV[i + 1])
    local valid = results == 1 and count or 0
    if results ~= 1 then
      for n = index + 1, index + count do
        if results[n] == 1 then valid = valid + 1 end
      end
    end
    if valid > 0 then deleteIds(ARGV[i], valid) end
    index = index + count
  end
  return results, notify
end
`;
