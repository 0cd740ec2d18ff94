-- Waiters and offers. Needs value.lua and exclusive.lua.
--
-- A waiter is a token in `queue`, by arrival, with a record in `meta`:
--   MODE LIVE-UNTIL ASKS-AT TTL FENCES CHANNEL IDENTITY
-- A mode is 'x' (exclusive), 's' (shared) or COUNT/OF (permits). Times are in ms.

-- Nil without a record.
local function parse_waiter(record)
  if record then
    return record:match('^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  end
end

-- Returns the number of receivers. Nil if the user may not publish: then the lock stays free until the next waiter asks.
local function publish_offer(channel, token, first, fences, micros, life)
  local receivers = redis.pcall('PUBLISH', 'lockwright:offered:' .. channel,
    token .. ' ' .. first .. ' ' .. fences .. ' ' .. text(micros) .. ' ' .. life)
  return type(receivers) == 'number' and receivers or nil
end

local function queue_again(queue, meta, token, place, record, life)
  redis.call('HSET', meta, token, record)
  redis.call('ZADD', queue, place, token)
  keep(queue, life)
  keep(meta, life)
end

-- The next two waiters ask if an offer has lapsed and its client has died. They are told, unless they ask by then
-- anyway.
local function publish_lapse(queue, meta, token, now, life)
  for _, behind in ipairs(redis.call('ZRANGE', queue, 0, 1)) do
    local _, _, asks_at, _, _, channel = parse_waiter(redis.call('HGET', meta, behind))
    if channel and behind ~= token and tonumber(asks_at) > now + life then
      redis.pcall('PUBLISH', 'lockwright:offered:' .. channel, 'behind ' .. behind .. ' ' .. text(life))
    end
  end
end

-- Offers a free lock to its first waiter. Returns the offer's lifetime, 0 if the user may not publish, or nil if only
-- queue.lua can go on: the waiter or its client has gone, it wants no exclusive hold, or no fence is left.
local function offer_exclusive(lock, fence, queue, meta, micros, counted)
  local token, place = unpack(redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES'))
  local record = token and redis.call('HGET', meta, token)
  local mode, live, _, ttl, fences, channel, identity = parse_waiter(record)
  local now = math.floor(micros / 1000)
  if mode ~= 'x' or tonumber(live) <= now then
    return nil
  end
  local last, full_until = parse_counter(redis.call('GET', fence))
  local first = next_fence(last, micros, tonumber(fences))
  if not first then
    return nil
  end
  local life = math.min(tonumber(ttl), 2000)
  write_counter(fence, first + fences - 1, full_until > now and full_until or 0, life + IDLE_FENCE)
  first = text(first)
  redis.call('ZREM', queue, token)
  redis.pcall('HDEL', meta, token)
  -- An offer is written before it is published, because a message is sent even if the script fails later.
  redis.call('SET', lock, format_hold(token, identity, first, fences), 'PX', life)
  local receivers = publish_offer(channel, token, first, fences, micros, life)
  if not receivers then
    redis.call('DEL', lock)
    queue_again(queue, meta, token, place, record, live - now)
    return 0
  elseif receivers == 0 and counted then
    redis.call('DEL', lock)
    return nil
  end
  publish_lapse(queue, meta, nil, now, life)
  return life
end
