/**
 * The index of ids. `get` and `cancel` need it for all messages, and an entry for each of them would cost a
 * fifth of the server's time for a message. So only an id that the sender chose has an entry of its own, which
 * is `=<id>` and has the message's number.
 *
 * A generated id ends in a number, which its sender counts up. The ids of a sender form groups by that number,
 * see `groupOf` in `_delivery.ts`. IDS has two fields for each group: `#<group>` is the number of its messages,
 * and `@<group>` has the blocks of message numbers in which they are, as `<seq divided by 64>`, the last one
 * first. Most groups have one or two blocks, and a message is found by looking at the messages of these.
 *
 * Messages that version 0.1 sent are not in the index. META has the field `indexed` once a queue cannot have
 * any; before that, messages are searched for.
 */
export const IDS = `
-- Adds messages to a group. Their numbers are between first and last, and above all numbers added before.
local function addToGroup(ids, group, first, last, count)
  redis.call('HINCRBY', ids, group, count)
  local field = '@' .. string.sub(group, 2)
  local blocks = redis.call('HGET', ids, field) or ''
  local known = tonumber(string.match(blocks, '^%d+') or -1)
  local firstNew, lastNew = math.max(known + 1, math.floor(first / 64)), math.floor(last / 64)
  if firstNew > lastNew then return end
  for block = firstNew, lastNew do blocks = block .. ' ' .. blocks end
  redis.call('HSET', ids, field, blocks)
end

-- Deletes the ids of messages: a chosen one, or some of a group.
local function deleteIds(index, count)
  if string.byte(index) == 61 then -- "="
    redis.call('HDEL', IDS, index)
  elseif redis.call('HINCRBY', IDS, index, -count) <= 0 then
    redis.call('HDEL', IDS, index, '@' .. string.sub(index, 2))
  end
end
`;
