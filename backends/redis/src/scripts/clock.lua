-- The clock for the expiry of shared holds and permits: the server's, unless a moved slot brought the key from another
-- server. Then the key's TTL gives the time: that of the longest hold, plus 1 ms.

local function time_of(holders, now)
  local longest = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  local left = longest and redis.call('PTTL', holders) or -1
  if left < 0 then
    return now
  end
  local time = longest + 1 - left
  -- A small lead is due to rounding.
  return time > now and time <= now + 1000 and now or time
end

-- The key's new TTL; nil without holders.
local function live_as_long(holders, at)
  local longest = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  if longest then
    local left = math.max(longest - at, 0) + 1
    redis.call('PEXPIRE', holders, string.format('%.0f', left))
    return left
  end
end

-- The key's expiry is extended first: if the key expires before a holder, the clock appears to be ahead.
local function expire_in(holders, token, life, at)
  local expires = at + 1 + life
  local longest, score = unpack(redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES'))
  if score and tonumber(score) < expires then
    redis.call('PEXPIRE', holders, string.format('%.0f', expires - at + 1))
  end
  redis.call('ZADD', holders, string.format('%.0f', expires), token)
  if not score or longest == token and tonumber(score) > expires then
    live_as_long(holders, at)
  end
end

