-- Ends a hold if this token has it, and never another's: the lock alone, as its slot is on the move
-- and the other keys may be on another node.
--
-- KEYS  lock
-- ARGV  token, channel for wake-ups, name
--
-- Answers 1 if it was held, else 0.

local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] and value ~= ARGV[1] .. ':broken' then
  return 0
end
redis.call('DEL', KEYS[1])
-- Whether anybody waits is noted elsewhere.
redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return 1
