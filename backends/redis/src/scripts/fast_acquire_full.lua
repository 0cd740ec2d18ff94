-- A lock that is held, or a counter that can't be used. Needs value.lua.

-- Restores the counter.
if counted == fences then
  redis.pcall('DEL', KEYS[2])
elseif last > counted then
  -- It may belong to a hold with the longest TTL, 30 days.
  redis.pcall('SET', KEYS[2], text(counted - fences), 'PX', text(2592000000 + IDLE_FENCE))
else
  redis.pcall('INCRBY', KEYS[2], -fences)
end
-- NX returns false for a held lock, and a table for an error.
local value = taken == false and redis.pcall('GET', KEYS[1])
local held_token, first, _, identity, by = parse_hold(value)
if not held_token or held_token == ARGV[1] then
  return -1
end
return { 'busy', redis.call('PTTL', KEYS[1]), held_token, identity, first, by or false, 'x' }
