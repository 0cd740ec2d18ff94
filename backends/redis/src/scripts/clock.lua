-- The time by which those who hold beside each other expire. Stands at the head of the scripts that need it.
--
-- It is the server's, unless the key has come here from a server with another clock, as a slot of a
-- Cluster moves: by this one's they would be thought gone too soon, or too late. What comes along with a key
-- is how long it has to live, which is as long as whoever holds longest, and one more millisecond.

local function time_of(holders, now)
  local longest = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  local left = longest and redis.call('PTTL', holders) or -1
  if left < 0 then
    return now
  end
  local time = longest + 1 - left
  -- Ahead by a little is only how it is rounded.
  return time > now and time <= now + 1000 and now or time
end

-- Has the key live as long as whoever holds longest. Answers how long that is; nil if nobody does.
local function live_as_long(holders, at)
  local longest = redis.call('ZRANGE', holders, -1, -1, 'WITHSCORES')[2]
  if longest then
    local left = math.max(longest - at, 0) + 1
    redis.call('PEXPIRE', holders, string.format('%.0f', left))
    return left
  end
end

-- Makes a token expire `life` after `at`, and keeps the key for as long as the longest hold. The key's
-- expiry is extended first: a key that expires before a holder makes the clock seem to be ahead.
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

