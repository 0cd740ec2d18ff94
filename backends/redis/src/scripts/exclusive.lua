-- Exclusive holds.

-- A week: by then the clock is ahead of an idle counter.
local IDLE_FENCE = 604800000

local function text(number)
  return string.format('%.0f', number)
end

-- Nil if too few are left.
local function next_fence(last, least, fences)
  local first = least
  if last then
    -- NaN fails each comparison.
    local number = tonumber(last) or -1
    if not (number >= 0) then
      return nil
    end
    first = math.max(number + 1, least)
  end
  -- Above 2^53, sums of doubles are rounded.
  if first <= 9007199254740992 - fences then
    return first
  end
end

local function count_fences(key, first, fences, ttl)
  redis.call('SET', key, text(first + fences - 1), 'PX', text(ttl + IDLE_FENCE))
end

-- The lock is set last: if an earlier command fails, nothing is held.
local function hold_exclusive(lock, hold, token, identity, first, fences, micros, life)
  redis.call('DEL', hold)
  redis.call('HSET', hold, 'token', token, 'identity', identity, 'fence', first, 'fences', fences,
             'since', text(micros))
  redis.call('PEXPIRE', hold, text(life))
  redis.call('SET', lock, token, 'PX', text(life))
end

-- The reply to a token that holds already. Nil if it or its description is missing.
local function again(lock, fence, hold, token, value, last, ttl)
  local broken = value == token .. ':broken'
  if value ~= token and not broken then
    return nil
  end
  local description = redis.call('HMGET', hold, 'token', 'fence', 'fences')
  local known = description[1] == token
  if broken then
    return { 'again', known and description[2] or last, known and description[3] or '1',
             redis.call('PTTL', lock) }
  elseif known then
    redis.call('PEXPIRE', fence, text(ttl + IDLE_FENCE))
    redis.call('PEXPIRE', hold, ttl)
    redis.call('PEXPIRE', lock, ttl)
    return { 'again', description[2], description[3] }
  end
end

