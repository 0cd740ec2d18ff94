-- Ends this token's hold or its wait, and offers the lock to the next waiter. release_full.lua continues this script
-- for shared holders, permits and withdrawals.
--
-- KEYS  lock, tombstone of this token, fence, queue, holders, meta
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name, '1' if PUBLISH counts all
--       receivers
--
-- Returns 0 if the token neither held nor waited; else 1, or the lifetime of a new offer in ms.

local token = ARGV[1]
local micros
local function read_time()
  local time = redis.call('TIME')
  micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
-- The tombstone is first, so that a late duplicate of the acquire is refused even if a later command fails.
if ARGV[2] ~= '0' then
  read_time()
  mark_counter(KEYS[3], micros, tonumber(ARGV[2]))
  redis.call('SET', KEYS[2], 'released', 'PX', ARGV[2])
end
local ended = hold_state(redis.pcall('GET', KEYS[1]), token)
if ended then
  redis.call('DEL', KEYS[1])
  -- The hold has ended, even if a later command fails.
  local ok, life = pcall(function()
    if redis.call('EXISTS', KEYS[4]) == 0 then
      return 1
    elseif not micros then
      read_time()
    end
    return offer_exclusive(KEYS[1], KEYS[3], KEYS[4], KEYS[6], micros, ARGV[5] == '1')
  end)
  if not ok or life then
    return ok and math.max(life, 1) or 1
  end
elseif redis.call('EXISTS', KEYS[4], KEYS[5]) == 0 then
  return 0
end
