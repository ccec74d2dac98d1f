/** The functions of scripts that take receipt handles. */
export const HANDLES = `
-- Finds the deliveries whose receipt handles are valid. The argument is JSON: a list of receives, each with
-- its id and the numbers of its messages. Only unexpired leases can settle, even when no other worker has
-- received the message since. Ready messages have no receive id, so the ends of the leases are read only
-- when some lease has expired.
--
-- The first result is 1 when all handles are valid, otherwise a list with 1 (valid), 0 (expired) or 2 (the
-- message is gone) for each. The other results are the numbers and the states of the valid ones, and all
-- numbers.
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
  return #valid == #seqs and 1 or results, valid, validStates, seqs
end

-- Deletes leased messages and what TRAITS has of them. Special ones have a priority or a key, see the class
-- RedisDelivery. Returns true when messages with their keys became ready and need a notification.
local function deleteLeased(seqs, special, specialSeqs)
  redis.call('ZREM', DUE, unpack(seqs))
  redis.call('HDEL', STATES, unpack(seqs))
  redis.call('HDEL', MESSAGES, unpack(seqs))
  if redis.call('EXISTS', CHECKPOINTS) == 1 then redis.call('HDEL', CHECKPOINTS, unpack(seqs)) end
  if #special == 0 then return false end
  -- rarely {
  local fields, keyed, lines = {}, {}, {}
  for i, text in ipairs(special) do
    if string.byte(text) == 112 then -- "p"
      fields[#fields + 1] = 't' .. specialSeqs[i]
      text = string.sub(text, 2)
    end
    if text ~= '' then
      keyed[#keyed + 1] = specialSeqs[i]
      lines[#keyed] = text
    end
  end
  if #fields > 0 then redis.call('HDEL', TRAITS, unpack(fields)) end
  local noneReady = #keyed > 0 and redis.call('EXISTS', READY, RETURNED) == 0
  return #keyed > 0 and leaveLines(keyed, lines) > 0 and noneReady
  -- }
end

-- Deletes the messages with valid handles and their ids. ARGV has from first on: the number of pairs, pairs of
-- an index, as SEND gets it, and how many messages in a row have it, and then what is special of each message
-- up to the last special one, or "". The second result is that of deleteLeased.
local function acknowledge(handles, first)
  local results, seqs, _, all = checkHandles(handles)
  if #seqs == 0 then return results, false end
  local lastPair, special, specialSeqs = first + 2 * tonumber(ARGV[first]), {}, {}
  for i = lastPair + 1, #ARGV do
    local n = i - lastPair
    if ARGV[i] ~= '' and (results == 1 or results[n] == 1) then
      special[#special + 1] = ARGV[i]
      specialSeqs[#special] = all[n]
    end
  end
  -- Its first command is never refused, so that none is on a server without memory.
  local notify, position = deleteLeased(seqs, special, specialSeqs), 0
  for i = first + 1, lastPair, 2 do
    local count = tonumber(ARGV[i + 1])
    local valid = results == 1 and count or 0
    if results ~= 1 then
      for n = position + 1, position + count do
        if results[n] == 1 then valid = valid + 1 end
      end
    end
    if valid > 0 then deleteIds(ARGV[i], valid) end
    position = position + count
  end
  return results, notify
end
`;
