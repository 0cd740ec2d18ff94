-- What one who holds alone has: a fence that was counted for it, a description, and the lock itself, which
-- is its token. Stands at the head of the scripts that need it.

-- An idle fence counter lives for another week: the clock is ahead of it by then.
local IDLE_FENCE = 604800000

local function text(number)
  return string.format('%.0f', number)
end

-- The next fence after the last one, and `least` at least, if so many may be counted from it on; else nil.
local function next_fence(last, least, fences)
  local first = least
  if last then
    -- A counter that isn't a number compares as neither.
    local number = tonumber(last) or -1
    if not (number >= 0) then
      return nil
    end
    first = math.max(number + 1, least)
  end
  -- Reckoned from the largest number on down: above it, sums of doubles are rounded.
  if first <= 9007199254740992 - fences then
    return first
  end
end

local function count_fences(key, first, fences, ttl)
  redis.call('SET', key, text(first + fences - 1), 'PX', text(ttl + IDLE_FENCE))
end

-- The lock comes last: whatever may fail before it, no permission say, leaves nothing held, and a
-- lock that holds a token has a fence that was counted for it.
local function hold_alone(lock, hold, token, identity, first, fences, micros, life)
  redis.call('DEL', hold)
  redis.call('HSET', hold, 'token', token, 'identity', identity, 'fence', first, 'fences', fences,
             'since', text(micros))
  redis.call('PEXPIRE', hold, text(life))
  redis.call('SET', lock, token, 'PX', text(life))
end

-- The answer to a token that the lock has already, armed again unless it was broken. Nil if it doesn't
-- have it, or somebody deleted the description of its hold.
local function again(lock, fence, hold, token, value, last, ttl)
  local broken = value == token .. ':broken'
  if value ~= token and not broken then
    return nil
  end
  local about = redis.call('HMGET', hold, 'token', 'fence', 'fences')
  local known = about[1] == token
  if broken then
    return { 'again', known and about[2] or last, known and about[3] or '1',
             redis.call('PTTL', lock) }
  elseif known then
    redis.call('PEXPIRE', fence, text(ttl + IDLE_FENCE))
    redis.call('PEXPIRE', hold, ttl)
    redis.call('PEXPIRE', lock, ttl)
    return { 'again', about[2], about[3] }
  end
end

