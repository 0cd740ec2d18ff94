-- Acquires a free lock without waiters. fast_acquire_full.lua follows. The usual case is decided here, before the
-- script creates any function: each call would create them again.
--
-- KEYS  lock, fence
-- ARGV  token, TTL in ms, fences, identity, a bound in s: a counter below it is set to the server's time
--
-- Returns the first fence; 'busy' and the holder as acquire.lua; or -1 if only acquire.lua can decide.

local fences, bound = tonumber(ARGV[3]), ARGV[5] * 1000000
-- Fails if the counter has a mark.
local counted = redis.pcall('INCRBY', KEYS[2], ARGV[3])
if type(counted) ~= 'number' then
  return -1
end
local first, taken = counted - fences + 1, nil
local is_usual = first > 0 and counted >= bound and counted <= bound + 86400000000 and counted < 9007199254740992
if is_usual then
  -- As format_hold in exclusive.lua.
  local hold = string.format('lw1:%s:%d:%s:%s', ARGV[1], first, ARGV[3], ARGV[4])
  taken = redis.pcall('SET', KEYS[1], hold, 'PX', ARGV[2], 'NX')
  if taken and taken.ok then
    return first
  end
end

