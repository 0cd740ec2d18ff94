-- Acquires a free lock without waiters. fast_acquire_full.lua follows. The usual case is decided here, before the
-- script creates any function: each call would create them again.
--
-- KEYS  lock, fence
-- ARGV  token, TTL in ms, fences, identity, a bound in ms: a counter below it is set to the server's time
--
-- Returns the first fence; 'busy' and the holder as acquire.lua; or -1 if only acquire.lua can decide.

local fences, bound = tonumber(ARGV[3]), ARGV[5] * 1000
-- Fails if the counter has a mark.
local counted = redis.pcall('INCRBY', KEYS[2], ARGV[3])
if type(counted) ~= 'number' then
  return -1
end
local last, written, taken = counted, nil, nil
-- Otherwise the counter is damaged, or has too few fences left.
if counted >= fences and counted < 9007199254740992 then
  local idle_fence = 604800000
  if counted < bound then
    written = redis.pcall('TIME')
    if not written.err then
      last = math.max(counted, written[1] * 1000000 + written[2] + fences - 1)
      written = redis.pcall('SET', KEYS[2], last, 'PX', ARGV[2] + idle_fence)
    end
  elseif counted > bound + 86400000000 then
    -- A counter far ahead of the clock must not expire while it is used.
    local left = redis.pcall('PTTL', KEYS[2])
    if type(left) == 'number' and left < ARGV[2] + idle_fence then
      left = redis.pcall('PEXPIRE', KEYS[2], ARGV[2] + idle_fence)
    end
    written = type(left) == 'table' and left or nil
  end
  if not written or written.ok then
    -- As format_hold in exclusive.lua.
    local hold = string.format('lw1:%s:%d:%s:%s', ARGV[1], last - fences + 1, ARGV[3], ARGV[4])
    taken = redis.pcall('SET', KEYS[1], hold, 'PX', ARGV[2], 'NX')
    if taken and taken.ok then
      return last - fences + 1
    end
  end
end

