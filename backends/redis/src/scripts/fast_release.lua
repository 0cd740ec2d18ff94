-- Releases an exclusive hold of a lock without waiters. Needs value.lua.
--
-- KEYS  lock, fence
-- ARGV  token
--
-- Returns 1, or -1 if only release.lua can decide.

local value, counter = unpack(redis.call('MGET', KEYS[1], KEYS[2]))
if hold_state(value, ARGV[1]) and not (counter and counter:find(' ', 1, true)) then
  redis.call('DEL', KEYS[1])
  return 1
end
return -1
