-- Ends this token's hold or its wait, and offers the lock to the next waiter. For speed, this part
-- handles the usual case, an exclusive holder and waiter, with few functions. release_full.lua
-- continues it.
--
-- KEYS  lock, tombstone of this token, fence, queue, holders, meta
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name, '1' if
--       PUBLISH counts all receivers
--
-- Returns 0 if the token neither held nor waited; else 1, or the lifetime of a new offer in ms.

local token = ARGV[1]
-- nil until an offer to tokens[1] replaces the hold. Then 'sent', 'unsent' (no right to PUBLISH),
-- or 'gone' (no client received the message).
local offered
local tokens, records, micros, life

-- As offer() in queue.lua.
local function offer(value, fence, mark, client)
  redis.pcall('HDEL', KEYS[6], tokens[1])
  -- 8 days: a week longer than the mark, which is at most a day ahead.
  redis.call('SET', KEYS[3], fence .. ' ' .. mark, 'PX', '691200000')
  -- An offer is written before PUBLISH, because the message is sent even if the script fails later.
  redis.call('SET', KEYS[1], value, 'PX', life)
  local receivers = redis.pcall('PUBLISH', 'lockwright:offered:' .. client,
    tokens[1] .. ' ' .. fence .. ' 1 ' .. fence .. ' ' .. life)
  if type(receivers) ~= 'number' then
    offered = 'unsent'
  else
    offered = receivers == 0 and ARGV[5] == '1' and 'gone' or 'sent'
  end
end

local found = ARGV[2] == '0' and redis.call('MGET', KEYS[1], KEYS[3])
local current = found and found[1]
if current and current:find('lw1:', 1, true) == 1 and current:find(token, 5, true) == 5 then
  tokens = redis.call('LRANGE', KEYS[4], '0', '2')
  if not tokens[1] then
    return redis.call('DEL', KEYS[1])
  end
  records = redis.call('HMGET', KEYS[6], unpack(tokens))
  local asked, patience, ttl, client, value =
    (records[1] or ''):match('^(%d+) (%d+) %d+ x (%d+) (%S+) (lw1:%x+:1:.*)$')
  local last, mark = (found[2] or ''):match('^(%d+) (%d+)$')
  local time = redis.call('TIME')
  micros = time[1] * 1000000 + time[2]
  if asked and asked + patience * 1000 > micros and last and last + 0 < micros
    and mark * 1000 >= micros and mark * 1000 < micros + 86400000000 then
    life = ttl + 0 < 2000 and ttl or '2000'
    -- LPOP is the first write, because a full server rejects a script whose first write could use
    -- memory.
    redis.call('LPOP', KEYS[4])
    -- If the offer fails, release_full.lua still ends the hold.
    pcall(offer, value, time[1] .. ('00000' .. time[2]):sub(-6), mark, client)
    -- A waiter that may retry after the offer lapses needs its lifetime.
    local needs_lifetime
    for i = 2, 3 do
      local left = records[i] and records[i]:match('^%d+ %d+ (%d+)')
      needs_lifetime = needs_lifetime or left and left + 0 > life + 0
    end
    if offered == 'sent' and not needs_lifetime then
      return life + 0
    end
  end
end
