-- Exclusive holds. Needs value.lua.

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

local function format_hold(token, identity, first, fences, micros)
  return 'lw1:' .. table.concat({ token, first, fences, text(micros), identity }, ':')
end

-- Grants a lock that has no string value. The lock's SET is last, so that nothing is held if an earlier command fails. NX
-- fails only for a key of another type: then no fence is counted.
local function grant(lock, counter, last, least, token, ttl, fences, identity, micros)
  local fence = next_fence(last, least, fences)
  if not fence then
    return { 'exhausted' }
  end
  count_fences(counter, fence, fences, ttl)
  local first, count = text(fence), text(fences)
  local value = format_hold(token, identity, first, count, micros)
  if redis.call('SET', lock, value, 'PX', text(ttl), 'NX') then
    return { 'granted', first, count }
  elseif last then
    redis.call('SET', counter, last, 'KEEPTTL')
  else
    redis.call('DEL', counter)
  end
  return { 'foreign' }
end

-- The reply to a token that holds already.
local function again(lock, fence, token, value, ttl)
  local state = hold_state(value, token)
  if not state then
    return nil
  end
  local _, first, fences = parse_hold(value)
  if state == 'broken' then
    return { 'again', first, fences, redis.call('PTTL', lock) }
  end
  redis.call('PEXPIRE', fence, text(ttl + IDLE_FENCE))
  redis.call('PEXPIRE', lock, ttl)
  return { 'again', first, fences }
end

