-- Ends this token's hold on a node of a quorum. Creates no function: see fast_acquire.lua.
--
-- KEYS  lock, queue, tombstone of this token
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name
--
-- Returns 1 if it was held, else 0.

-- The tombstone is written before anything else. release.lua explains why.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[3], 'released', 'PX', ARGV[2])
end
-- As hold_state in value.lua.
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or value:find(ARGV[1], 5, true) ~= 5 or not value:find('^lw1[:!]') then
  return 0
end
-- 2: a client waits. See vote.lua.
if redis.call('DEL', KEYS[1], KEYS[2]) == 2 then
  -- A hint, which may lack permission.
  redis.pcall('PUBLISH', ARGV[3], ARGV[4])
end
return 1
