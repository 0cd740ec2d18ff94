-- Releases an exclusive hold of a lock without waiters. Creates no function, for speed.
--
-- KEYS  lock, fence
-- ARGV  the hold's value
--
-- Returns 1, or -1 if only release.lua can decide.

local found = redis.call('MGET', KEYS[1], KEYS[2])
if found[1] == ARGV[1] and not (found[2] and found[2]:find(' ', 1, true)) then
  return redis.call('DEL', KEYS[1])
end
return -1
