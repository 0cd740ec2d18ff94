-- Describes a lock by the lock's key only, while its slot is moving.
--
-- KEYS  lock
--
-- Returns the same as inspect.lua, without counter and waiters, and 'shared' without holders,
-- because these are in other keys.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  return { 'alien', false, false, redis.call('TYPE', KEYS[1]).ok }
elseif not value then
  return { 'free', false, false }
elseif value:match('^lockwright:%a+:%d+$') then
  return { 'shared', false, false }
end
return { 'busy', false, false, redis.call('PTTL', KEYS[1]), value:find('^lw1[:!]') and value or false }
