-- Ends this token's hold or its wait, and offers the lock to the next waiter.
--
-- KEYS  lock, tombstone of this token, fence, queue, holders, meta
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name, '1' if receivers can be counted
--
-- Returns 0 if it neither held nor waited; else 1, or the lifetime of a new offer in ms.

local token = ARGV[1]
local micros
local function look_at_time()
  local time = redis.call('TIME')
  micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
-- First, so that a late duplicate of the acquire is refused even if a later command fails.
if ARGV[2] ~= '0' then
  look_at_time()
  keep_from_light(KEYS[3], micros, tonumber(ARGV[2]))
  redis.call('SET', KEYS[2], 'released', 'PX', ARGV[2])
end
local ended = hold_state(redis.pcall('GET', KEYS[1]), token)
if ended then
  redis.call('DEL', KEYS[1])
elseif redis.call('EXISTS', KEYS[4], KEYS[5]) == 0 then
  return 0
end

local its
local function look()
  if not micros then
    look_at_time()
  end
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
end)
return math.max(life, 1)
