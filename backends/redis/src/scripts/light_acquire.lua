-- Acquires a free lock for which no client waits. Needs value.lua and exclusive.lua.
--
-- KEYS  lock, fence
-- ARGV  token, TTL in ms, fences, identity, a time in s: a counter that is older is raised to the server's time
--
-- Returns the first fence; 'busy' and the holder as acquire.lua; or -1 if only acquire.lua can decide.

local fences = tonumber(ARGV[3])
local last = redis.pcall('INCRBY', KEYS[2], fences)
if type(last) ~= 'number' then
  return -1
end
local highest = last
-- A fence that wasn't issued isn't counted.
local function undo()
  if last == fences then
    redis.call('DEL', KEYS[2])
  elseif highest > last then
    redis.call('SET', KEYS[2], text(last - fences), 'KEEPTTL')
  else
    redis.call('INCRBY', KEYS[2], -fences)
  end
end
-- The counter is damaged or has too few left.
if last < fences or last >= 9007199254740992 then
  undo()
  return -1
end
if last < ARGV[5] * 1000000 then
  local time = redis.call('TIME')
  highest = math.max(last, time[1] * 1000000 + time[2] + fences - 1)
  write_counter(KEYS[2], highest, 0, ARGV[2] + IDLE_FENCE)
end
local first = highest - fences + 1
local hold = format_hold(ARGV[1], ARGV[4], text(first), ARGV[3])
if redis.call('SET', KEYS[1], hold, 'PX', ARGV[2], 'NX') then
  return first
end
undo()
local held_token, held_first, _, identity, by = parse_hold(redis.pcall('GET', KEYS[1]))
if not held_token or held_token == ARGV[1] then
  return -1
end
return { 'busy', redis.call('PTTL', KEYS[1]), held_token, identity, held_first, by, 'x' }
