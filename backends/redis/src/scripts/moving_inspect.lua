-- Describes a lock by its own key, while its slot is moving.
--
-- KEYS  lock
-- ARGV  the fence counter's value, or ''
--
-- Returns the same as inspect.lua, with false for the waiters; or the state 'shared' without holders,
-- which are in another key.

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  return { 'alien', ARGV[1], false, redis.call('TYPE', KEYS[1]).ok }
elseif not value then
  return { 'free', ARGV[1], false }
elseif value:match('^lockwright:%a+:%d+$') then
  return { 'shared', ARGV[1], false }
end
local token, first, _, identity, by = parse_hold(value, ARGV[1])
return { token and 'held' or 'foreign', ARGV[1], false, redis.call('PTTL', KEYS[1]), token or false,
         identity or false, first or false, by or false, 'x' }
