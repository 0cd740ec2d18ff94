-- Waiters and offers.
--
-- A waiter is a token in `queue`, by arrival, with a record in `meta`:
--   MODE QUEUED-UNTIL RETRIES-AT TTL FENCES CHANNEL IDENTITY
-- A mode is 'x' (exclusive), 's' (shared) or COUNT/OF (permits). Times are in ms.

local LONGEST_OFFER = 2000

local function parse_waiter(record)
  if record then
    return record:match('^(%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  end
end

-- Publishes an offer. Returns the number of receivers. Nil if the user may not publish: then the lock stays free until
-- the next waiter retries.
local function publish_offer(channel, token, first, fences, micros, life)
  local receivers = redis.pcall('PUBLISH', 'lockwright:offered:' .. channel,
    token .. ' ' .. first .. ' ' .. fences .. ' ' .. text(micros) .. ' ' .. life)
  return type(receivers) == 'number' and receivers or nil
end

local function queue_again(queue, meta, token, place, record, life)
  redis.call('HSET', meta, token, record)
  redis.call('ZADD', queue, place, token)
  extend_expiry(queue, life)
  extend_expiry(meta, life)
end

-- Sends the offer's lifetime to the next two waiters, unless they retry before it expires. So they retry
-- even if the offering client has died.
local function publish_lifetime(queue, meta, token, now, life)
  for _, behind in ipairs(redis.call('ZRANGE', queue, 0, 1)) do
    local _, _, retries_at, _, _, channel = parse_waiter(redis.call('HGET', meta, behind))
    if channel and behind ~= token and tonumber(retries_at) > now + life then
      redis.pcall('PUBLISH', 'lockwright:offered:' .. channel, 'behind ' .. behind .. ' ' .. text(life))
    end
  end
end

-- Offers a free lock to its first waiter. Returns the offer's lifetime, 0 if the user may not publish, or nil if
-- queue.lua must continue: the first waiter has expired, has no receiver or isn't exclusive, or no fence is left.
local function offer_exclusive(lock, fence, queue, meta, micros, counted)
  local token, place = unpack(redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES'))
  local record = token and redis.call('HGET', meta, token)
  local mode, live, _, ttl, fences, channel, identity = parse_waiter(record)
  local now = math.floor(micros / 1000)
  if mode ~= 'x' or tonumber(live) <= now then
    return nil
  end
  local last, marked_until = parse_counter(redis.call('GET', fence))
  local first = next_fence(last, micros, tonumber(fences))
  if not first then
    return nil
  end
  local life = math.min(tonumber(ttl), LONGEST_OFFER)
  count_fences(fence, first + fences - 1, marked_until, now, life)
  redis.call('ZREM', queue, token)
  redis.pcall('HDEL', meta, token)
  -- An offer is written before it is published, because a message is sent even if the script fails later.
  redis.call('SET', lock, format_hold(token, identity, fences), 'PX', life)
  local receivers = publish_offer(channel, token, text(first), fences, micros, life)
  if not receivers then
    redis.call('DEL', lock)
    queue_again(queue, meta, token, place, record, live - now)
    return 0
  elseif receivers == 0 and counted then
    redis.call('DEL', lock)
    return nil
  end
  publish_lifetime(queue, meta, nil, now, life)
  return life
end
