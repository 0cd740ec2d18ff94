-- A counter that must be changed first, or a lock that is held. Needs value.lua and exclusive.lua.

-- Of a counter that may belong to a hold with the longest TTL, 30 days.
local LONGEST_LIFE = 2592000000 + IDLE_FENCE

local last = counted

local function restore_counter()
  if counted == fences then
    redis.pcall('DEL', KEYS[2])
  elseif last > counted then
    redis.pcall('SET', KEYS[2], text(counted - fences), 'PX', text(LONGEST_LIFE))
  else
    redis.pcall('INCRBY', KEYS[2], -fences)
  end
end

-- Returns whether the lock was free.
local function take()
  if counted < bound then
    local time = redis.call('TIME')
    last = math.max(counted, time[1] * 1000000 + time[2] + fences - 1)
    write_counter(KEYS[2], last, 0, ARGV[2] + IDLE_FENCE)
  else
    -- A counter far ahead of the clock must not expire while it is used.
    extend_expiry(KEYS[2], ARGV[2] + IDLE_FENCE)
  end
  local hold = format_hold(ARGV[1], ARGV[4], text(last - fences + 1), ARGV[3])
  return redis.call('SET', KEYS[1], hold, 'PX', ARGV[2], 'NX')
end

-- The counter was negative, or has too few fences left.
if first <= 0 or counted >= 9007199254740992 then
  restore_counter()
  return -1
end
if not is_usual then
  local ok
  ok, taken = pcall(take)
  if ok and taken then
    return last - fences + 1
  end
  taken = not ok
end
restore_counter()
-- If the lock couldn't be written, it has no holder to report.
local value = not taken and redis.pcall('GET', KEYS[1])
local held_token, held_first, _, identity, by = parse_hold(value)
if not held_token or held_token == ARGV[1] then
  return -1
end
return { 'busy', redis.call('PTTL', KEYS[1]), held_token, identity, held_first, by or false, 'x' }
