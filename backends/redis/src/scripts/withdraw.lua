-- Ends this token's hold on a node of a quorum. Needs value.lua.
--
-- KEYS  lock, queue, tombstone of this token
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name
--
-- Returns 1 if it was held, else 0.

-- First: see release.lua.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[3], 'released', 'PX', ARGV[2])
end
if not hold_state(redis.pcall('GET', KEYS[1]), ARGV[1]) then
  return 0
end
-- 2: a client waits. See vote.lua.
if redis.call('DEL', KEYS[1], KEYS[2]) == 2 then
  -- A hint, which may lack permission.
  redis.pcall('PUBLISH', ARGV[3], ARGV[4])
end
return 1
