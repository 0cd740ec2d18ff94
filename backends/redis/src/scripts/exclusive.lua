-- Exclusive holds and the fence counter.
--
-- The counter is the highest fence issued. While clients may wait, or tombstones may exist, a mark
-- follows: a space and the mark's end in ms. The fast scripts then return -1. After the mark's end,
-- the next script that issues a fence removes it.

-- Returns the highest fence (nil without a counter, -1 if damaged), and the mark's end or 0.
local function parse_counter(value)
  if not value then
    return nil, 0
  end
  local last, marked_until = value:match('^(%d+) ?(%d*)$')
  return tonumber(last) or -1, tonumber(marked_until) or 0
end

-- Returns the first of `fences` new fences, or nil if the counter is damaged or too few are left.
local function next_fence(last, least, fences)
  local first = least
  if last then
    if last < 0 then
      return nil
    end
    first = math.max(last + 1, least)
  end
  -- Larger doubles would be rounded.
  if first <= 9007199254740992 - fences then
    return first
  end
end

local function write_counter(key, last, marked_until, life)
  local mark = marked_until > 0 and ' ' .. text(marked_until) or ''
  redis.call('SET', key, text(last) .. mark, 'PX', text(life))
end

local function count_fences(key, last, marked_until, now, life)
  if marked_until < now then
    marked_until = 0
  end
  local ahead = math.max(marked_until, math.ceil(last / 1000)) - now
  write_counter(key, last, marked_until, math.max(life, ahead) + IDLE_FENCE)
end

-- Marks the counter for at least `life` ms. `value` is the counter's value, if known.
local function mark_counter(key, micros, life, value)
  local last, marked_until = parse_counter(value or redis.call('GET', key))
  local now = math.floor(micros / 1000)
  -- A damaged counter can't be marked. A fast release then makes no offer, so waiters poll.
  if last ~= -1 and marked_until < now + life then
    -- Mark the counter for twice the time, so most waiters' requests needn't write it.
    local longest = math.max(redis.call('PTTL', key), 2 * life + IDLE_FENCE)
    write_counter(key, last or micros, now + 2 * life, longest)
  end
end

local function fences_of(value)
  return value:match('^lw1:%x+:(%d+):')
end

-- Grants a lock whose value was nil. The lock's SET is last, so nothing is held if an earlier
-- command fails. If the key has another type, SET NX fails, and the counter is restored.
local function grant(lock, fence, counter, now, least, value, ttl)
  local last, marked_until = parse_counter(counter)
  local fences = fences_of(value)
  local first = next_fence(last, least, fences)
  if not first then
    return { 'exhausted' }
  end
  count_fences(fence, first + fences - 1, marked_until, now, ttl)
  if redis.call('SET', lock, value, 'PX', text(ttl), 'NX') then
    return { 'granted', text(first), fences }
  elseif counter then
    redis.call('SET', fence, counter, 'KEEPTTL')
  else
    redis.call('DEL', fence)
  end
  return { 'foreign' }
end

-- Extends the token's hold, unless broken. Returns the reply, or nil without a hold.
local function again(lock, fence, token, value, counter, ttl)
  local state = hold_state(value, token)
  if not state then
    return nil
  end
  local _, first, fences = parse_hold(value, counter)
  if not first then
    -- An operator has deleted the counter.
    return { 'ended' }
  end
  if state == 'broken' then
    return { 'again', first, fences, redis.call('PTTL', lock) }
  end
  redis.call('PEXPIRE', lock, ttl)
  extend_expiry(fence, ttl + IDLE_FENCE)
  return { 'again', first, fences }
end

