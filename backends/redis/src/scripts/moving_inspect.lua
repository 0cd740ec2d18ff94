-- Describes a lock by its own key: its slot is moving.
--
-- KEYS  lock
--
-- Returns value or nil, ms left or -1, type.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  value = false
end
return { value, redis.call('PTTL', KEYS[1]), redis.call('TYPE', KEYS[1]).ok }
