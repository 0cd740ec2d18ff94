-- Describes a lock by its own key alone, as its slot is on the move.
--
-- KEYS  lock
--
-- Answers value or nil, ms left or -1, type.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  value = false
end
return { value, redis.call('PTTL', KEYS[1]), redis.call('TYPE', KEYS[1]).ok }
