-- Ends this token's hold on a node of a quorum. Creates no function: see fast_acquire.lua.
--
-- KEYS  lock, queue, tombstone of this token
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name
--
-- Returns 1 if it was held, else 0.

-- First: see release.lua.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[3], 'released', 'PX', ARGV[2])
end
-- MGET returns nil for a key of another type.
local value = redis.call('MGET', KEYS[1])[1]
-- A broken hold begins with 'lw1!'.
if not value or value:sub(1, 3) ~= 'lw1' or value:find(ARGV[1] .. ':', 1, true) ~= 5 then
  return 0
end
-- 2: a client waits. See vote.lua.
if redis.call('DEL', KEYS[1], KEYS[2]) == 2 then
  -- A hint, which may lack permission.
  redis.pcall('PUBLISH', ARGV[3], ARGV[4])
end
return 1
