-- Ends a hold on a node of a quorum if this token has it, and never another's.
--
-- KEYS  lock, hold, tombstone of this token
-- ARGV  token, how long the tombstone lasts in ms ('0' for none), channel for wake-ups, name
--
-- Answers 1 if it was held, else 0.

local token = ARGV[1]
-- First, so that a late duplicate of the acquire is refused whatever may fail below.
if ARGV[2] ~= '0' then
  redis.call('SET', KEYS[3], 'released', 'PX', ARGV[2])
end
local value = redis.pcall('GET', KEYS[1])
if value ~= token and value ~= token .. ':broken' then
  return 0
end
-- Whoever asked while it was held left a mark; without one nobody needs to be told.
local waited = redis.call('HGET', KEYS[2], 'waited')
redis.call('DEL', KEYS[1], KEYS[2])
if waited then
  -- A hint: it is released all the same where publishing isn't permitted.
  redis.pcall('PUBLISH', ARGV[3], ARGV[4])
end
return 1
