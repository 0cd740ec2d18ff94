-- Releases an exclusive hold of a lock without waiters. Creates no function: see fast_acquire.lua.
--
-- KEYS  lock, fence
-- ARGV  token
--
-- Returns 1, or -1 if only release.lua can decide.

local found = redis.call('MGET', KEYS[1], KEYS[2])
local value, counter = found[1], found[2]
local is_held = value and value:find('lw1:' .. ARGV[1] .. ':', 1, true) == 1
if is_held and not (counter and counter:find(' ', 1, true)) then
  redis.call('DEL', KEYS[1])
  return 1
end
return -1
