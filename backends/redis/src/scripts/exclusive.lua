-- Exclusive holds and the fence counter. Needs value.lua.
--
-- The counter is the highest fence issued. While clients may wait, or tombstones may exist, a space and a time in ms
-- follow. Until that time light_acquire.lua and light_release.lua leave the lock to acquire.lua and release.lua:
-- INCRBY fails on such a value.

-- A week: by then the clock is ahead of an idle counter.
local IDLE_FENCE = 604800000

local function text(number)
  return string.format('%.0f', number)
end

-- Returns the highest fence (nil if there is none, -1 if damaged), and until when requests must not be light.
local function parse_counter(value)
  if not value then
    return nil, 0
  end
  local last, full_until = value:match('^(%d+) ?(%d*)$')
  return tonumber(last) or -1, tonumber(full_until) or 0
end

-- Nil if too few are left.
local function next_fence(last, least, fences)
  local first = least
  if last then
    -- NaN fails each comparison.
    if not (last >= 0) then
      return nil
    end
    first = math.max(last + 1, least)
  end
  -- Above 2^53, sums of doubles are rounded.
  if first <= 9007199254740992 - fences then
    return first
  end
end

local function write_counter(key, last, full_until, life)
  local value = text(last)
  if full_until > 0 then
    value = value .. ' ' .. text(full_until)
  end
  redis.call('SET', key, value, 'PX', text(life))
end

local function keep_from_light(key, value, micros, life)
  local last, full_until = parse_counter(value)
  local now = math.floor(micros / 1000)
  -- A damaged counter prevents light requests too.
  if last ~= -1 and full_until < now + life then
    -- Twice as long, so that the requests of waiters don't each write it.
    local longest = math.max(redis.call('PTTL', key), 2 * life + IDLE_FENCE)
    write_counter(key, last or micros, now + 2 * life, longest)
  end
end

local function format_hold(token, identity, first, fences)
  return 'lw1:' .. token .. ':' .. first .. ':' .. fences .. ':' .. identity
end

-- Grants a lock that has no string value. The lock's SET is last, so that nothing is held if an earlier command fails. NX
-- fails only for a key of another type: then no fence is counted.
local function grant(lock, counter, value, now, least, token, ttl, fences, identity)
  local last, full_until = parse_counter(value)
  local fence = next_fence(last, least, fences)
  if not fence then
    return { 'exhausted' }
  end
  write_counter(counter, fence + fences - 1, full_until > now and full_until or 0, ttl + IDLE_FENCE)
  local first, count = text(fence), text(fences)
  if redis.call('SET', lock, format_hold(token, identity, first, count), 'PX', text(ttl), 'NX') then
    return { 'granted', first, count }
  elseif value then
    redis.call('SET', counter, value, 'KEEPTTL')
  else
    redis.call('DEL', counter)
  end
  return { 'foreign' }
end

-- The reply to a token that holds already.
local function again(lock, token, value, ttl)
  local state = hold_state(value, token)
  if not state then
    return nil
  end
  local _, first, fences = parse_hold(value)
  if state == 'broken' then
    return { 'again', first, fences, redis.call('PTTL', lock) }
  end
  redis.call('PEXPIRE', lock, ttl)
  return { 'again', first, fences }
end

