-- The clock of shared holds and permits. After a slot's move, their stored expiry times are by the
-- old server's clock, which time_of() derives from the TTL of `holders`. That key expires KEPT + 1
-- ms after the longest hold. Before that, each waiting client runs a script, which removes the
-- records of expired holders.
local KEPT = 60000

local function time_of(holders, now)
  local longest = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  local left = longest and redis.call('PTTL', holders) or -1
  if left < 0 then
    return now
  end
  local time = longest + 1 + KEPT - left
  -- A `time` slightly ahead of this server's clock comes from rounding.
  return time > now and time <= now + 1000 and now or time
end

-- Sets the TTL of `holders`, for a longest hold with `left` ms left. PEXPIRE reads the clock after
-- the script, and time_of() would lag by all these differences. So with this server's times, the
-- TTL counts from the script's time. After a slot's move, the lag of 40 µs per change lasts until
-- the last holder leaves.
local function live_for(holders, left, at, now)
  local life = string.format('%.0f', left + KEPT + (at == now and now or 0))
  redis.call(at == now and 'PEXPIREAT' or 'PEXPIRE', holders, life)
end

-- Sets the TTL of `holders`. Returns the longest hold's time left, or nil without holders.
local function live_as_long(holders, at, now)
  local longest = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  if longest then
    local left = math.max(longest - at, 0) + 1
    live_for(holders, left, at, now)
    return left
  end
end

-- Sets a hold's expiry. Extends the TTL of `holders` first: time_of() would be ahead of the clock
-- with too short a TTL.
local function expire_in(holders, token, life, at, now)
  local expires = at + 1 + life
  local longest, score = unpack(redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES'))
  if score and tonumber(score) < expires then
    live_for(holders, expires - at + 1, at, now)
  end
  redis.call('ZADD', holders, string.format('%.0f', expires), token)
  if not score or longest == token and tonumber(score) > expires then
    live_as_long(holders, at, now)
  end
end
