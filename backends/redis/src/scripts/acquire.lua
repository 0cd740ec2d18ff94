-- Acquires a lock: grants it, repeats an earlier grant, or reports the holder and queues the claim. acquire_full.lua
-- continues this script for shared holders, permits and other waiters.
--
-- KEYS  lock, fence, tombstone of this token, queue, holders, meta
-- ARGV  token, TTL in ms, fences ('1' if shared or permits), identity, how many ms it stays queued without a request
--       ('0': doesn't wait), mode, client's channel, '1' if PUBLISH counts all receivers, wake-up channel, name
--
-- Returns
--   'granted', first fence, fences           held for the full TTL
--   'again', first fence, fences             held before, or offered; extended to the full TTL
--   'again', first fence, fences, ms left    a broken hold: not extended
--   'busy', ms left or -1, token, identity, fence, broken, mode    not granted; without a token: a foreign holder
--   …, waiters before it, TIME in µs         as 'busy', and the token is queued
--   'kind', 'lock' or a number               the name is in use as a lock, or a semaphore of that size
--   'ended'                                  the token was released or broken before
--   'foreign'                                the lock's key isn't a string
--   'exhausted'                              no fences are left

local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

local token, ttl, fences, mode = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[6]
-- MGET returns nil for a key of another type, which its.look() or grant() detects.
local value, counter, ended = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3]))
if ended then
  return { 'ended' }
end

local answer = again(KEYS[1], token, value, counter, ttl)
if answer then
  return answer
end

if mode == 'x' and not value and redis.call('EXISTS', KEYS[4]) == 0 then
  return grant(KEYS[1], KEYS[2], counter, micros / 1000, micros, token, ttl, fences, ARGV[4])
end

-- Returns the holder, and queues the claim if it waits. The claim is queued even if extending the queue's expiry fails.
local function busy(reply, is_shared)
  table.insert(reply, 1, 'busy')
  local queue, meta, patience, left = KEYS[4], KEYS[6], tonumber(ARGV[5]), reply[2]
  if patience == 0 then
    return reply
  end
  local now = math.floor(micros / 1000)
  local before, place = redis.call('ZRANK', queue, token), nil
  if not before then
    local last, score = unpack(redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES'))
    before = last and redis.call('ZRANK', queue, last) + 1 or 0
    place = text(math.max((tonumber(score) or 0) + 1, micros))
    if not last and not is_shared then
      -- The only records are of dead holders, whose key has expired.
      redis.call('DEL', meta)
    end
  end
  -- The client retries when the hold is due to expire.
  local retries_at = now + (left < 0 and patience or left)
  redis.call('HSET', meta, token, table.concat(
    { mode, text(now + patience), text(retries_at), ARGV[2], ARGV[3], ARGV[7], ARGV[4] }, ' '))
  extend_expiry(meta, patience)
  mark_counter(KEYS[2], micros, patience, counter)
  if place then
    redis.call('ZADD', queue, place, token)
  end
  pcall(extend_expiry, queue, patience)
  reply[8], reply[9] = before, text(micros)
  return reply
end

local held_token, first, _, identity, by = parse_hold(value, counter)
if held_token and mode == 'x' then
  return busy({ redis.call('PTTL', KEYS[1]), held_token, identity, first or false, by or false, mode })
end
