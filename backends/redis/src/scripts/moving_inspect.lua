-- Describes a lock by its own key, while its slot is moving.
--
-- KEYS  lock
--
-- Returns the same as inspect.lua, with false for the fence and the waiters; or the state 'shared' without holders,
-- which are in another key.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  return { 'alien', false, false, redis.call('TYPE', KEYS[1]).ok }
elseif not value then
  return { 'free', false, false }
elseif value:match('^lockwright:%a+:%d+$') then
  return { 'shared', false, false }
end
local token, first, _, identity, by = parse_hold(value)
return { token and 'held' or 'foreign', false, false, redis.call('PTTL', KEYS[1]), token or false,
         identity or false, first or false, by or false, 'x' }
