-- Ends this token's hold or its wait, and offers the lock to the next waiter.
--
-- KEYS  lock, tombstone of this token, fence, queue, holders, meta, queue flag
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name, '1' if receivers can be counted
--
-- Returns 0 if it neither held nor waited; else 1, or the lifetime of a new offer in ms.

local token = ARGV[1]
-- First, so that a late duplicate of the acquire is refused even if a later command fails.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[2], 'released', 'PX', ARGV[2])
end
local value, flag = unpack(redis.call('MGET', KEYS[1], KEYS[7]))
local ended = hold_state(value, token)
if ended then
  redis.call('DEL', KEYS[1])
  if not flag then
    return 1
  end
elseif redis.call('EXISTS', KEYS[4], KEYS[5]) == 0 then
  return 0
end

local its
local function look()
  local time = redis.call('TIME')
  local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
  its = queue_of(KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6], micros, ARGV[5] == '1')
  return its.look()
end
if not ended then
  if not look() then
    return its.withdraw(token) and 1 or 0
  elseif not its.leave(token) and not its.withdraw(token) then
    return 0
  end
end

-- Ended, even if a later command fails.
local life = 0
pcall(function()
  if its or redis.call('EXISTS', KEYS[4]) == 1 and look() then
    life = its.grant_next()
    if its.is_unfinished then
      redis.pcall('PUBLISH', ARGV[3], ARGV[4])
    end
  end
  if flag and redis.call('EXISTS', KEYS[4]) == 0 then
    redis.call('DEL', KEYS[7])
  end
end)
return math.max(life, 1)
