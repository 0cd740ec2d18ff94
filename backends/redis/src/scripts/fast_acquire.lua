-- Acquires a free lock without waiters. Needs value.lua and exclusive.lua.
--
-- KEYS  lock, fence
-- ARGV  token, TTL in ms, fences, identity, a bound in s: a counter below it is set to the server's time
--
-- Returns the first fence; 'busy' and the holder as acquire.lua; or -1 if only acquire.lua can decide.

local fences = tonumber(ARGV[3])
-- Fails if the counter has a mark.
local counted = redis.pcall('INCRBY', KEYS[2], ARGV[3])
if type(counted) ~= 'number' then
  return -1
end
local last = counted

local function restore_counter()
  if counted == fences then
    redis.call('DEL', KEYS[2])
  elseif last > counted then
    redis.call('SET', KEYS[2], text(counted - fences), 'KEEPTTL')
  else
    redis.call('INCRBY', KEYS[2], -fences)
  end
end

-- The counter was negative, or has too few fences left.
if counted < fences or counted >= 9007199254740992 then
  restore_counter()
  return -1
end
if counted < ARGV[5] * 1000000 then
  local time = redis.call('TIME')
  last = math.max(counted, time[1] * 1000000 + time[2] + fences - 1)
  write_counter(KEYS[2], last, 0, ARGV[2] + IDLE_FENCE)
end
local first = last - fences + 1
local hold = format_hold(ARGV[1], ARGV[4], text(first), ARGV[3])
if redis.call('SET', KEYS[1], hold, 'PX', ARGV[2], 'NX') then
  return first
end
restore_counter()
local held_token, held_first, _, identity, by = parse_hold(redis.pcall('GET', KEYS[1]))
if not held_token or held_token == ARGV[1] then
  return -1
end
return { 'busy', redis.call('PTTL', KEYS[1]), held_token, identity, held_first, by or false, 'x' }
