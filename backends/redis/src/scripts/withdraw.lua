-- Ends this token's hold on a node of a quorum. Creates no function, for speed.
--
-- KEYS  lock, queue, tombstone of this token
-- ARGV  token, lifetime of the tombstone in ms ('0' for none), wake-up channel, name
--
-- Returns 1 if the token held the lock, else 0.

-- The tombstone is first: even if DEL fails, it refuses a late duplicate of the vote request.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[3], 'released', 'PX', ARGV[2])
end
-- As hold_state() in value.lua.
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or value:find(ARGV[1], 5, true) ~= 5 or not value:find('^lw1[:!]') then
  return 0
end
-- If DEL deletes two keys, there was a queue, so clients wait.
if redis.call('DEL', KEYS[1], KEYS[2]) == 2 then
  -- An error only delays the waiters, which poll.
  redis.pcall('PUBLISH', ARGV[3], ARGV[4])
end
return 1
