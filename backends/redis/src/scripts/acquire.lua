-- Asks for a lock: grants it, repeats an earlier grant, or says who holds it.
--
-- KEYS  lock, fence, hold, tombstone of this token; for a node of a quorum: its certificate
-- ARGV  token, TTL in ms, fences wanted, identity, '1' if the client will wait; for a node of a
--       quorum: the certificate that its client saw, and the smallest fence that it may give
--
-- Answers
--   'granted', first fence, fences           armed for the full TTL
--   'again', first fence, fences             the same to a token that held already
--   'again', first fence, fences, ms left    a broken hold of this token: not armed again
--   'stranger'                               the certificate isn't the one that its client saw
--   'busy', ms left or -1, token, identity, fence, broken    token is nil for a foreign holder
--   'ended'                                    this token was released or broken before
--   'foreign'                                  the lock's key isn't a string
--   'exhausted'                                no fences are left

-- First of all, so that the fence isn't taken from a clock that ran on during the script.
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

if KEYS[5] and redis.call('GET', KEYS[5]) ~= ARGV[6] then
  return { 'stranger' }
end

local token, ttl, fences = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- MGET answers nil for what isn't a string; a lock of another type is noticed below.
local value, last, ended = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[4]))
-- An idle fence counter lives for another week: the clock is ahead of it by then.
local fence_life = ttl + 604800000

if ended then
  return { 'ended' }
end

local broken = token .. ':broken'
if value == token or value == broken then
  local hold = redis.call('HMGET', KEYS[3], 'token', 'fence', 'fences')
  local known = hold[1] == token
  if value == broken then
    return { 'again', known and hold[2] or last, known and hold[3] or '1',
             redis.call('PTTL', KEYS[1]) }
  elseif known then
    redis.call('PEXPIRE', KEYS[2], fence_life)
    redis.call('PEXPIRE', KEYS[3], ttl)
    redis.call('PEXPIRE', KEYS[1], ttl)
    return { 'again', hold[2], hold[3] }
  end
  -- Somebody deleted the hold's description: it gets a new fence and a new description.
elseif value then
  local hold =
    redis.call('HMGET', KEYS[3], 'token', 'identity', 'fence', 'broken', 'waited')
  local left = redis.call('PTTL', KEYS[1])
  if hold[1] ~= value and (hold[1] or '') .. ':broken' ~= value then
    return { 'busy', left }
  end
  -- Part 6 queues the claim here. Until then the holder only learns that somebody waits.
  if ARGV[5] == '1' and not hold[5] then
    redis.call('HSET', KEYS[3], 'waited', '1')
  end
  return { 'busy', left, hold[1], hold[2], hold[3], hold[4] }
end

if not value and redis.call('EXISTS', KEYS[1]) == 1 then
  return { 'foreign' }
end

-- Without a candidate the server's clock is one.
local least = tonumber(ARGV[7]) or micros
local fence = least
if last then
  -- A counter that isn't a number compares as neither.
  local number = tonumber(last) or -1
  if not (number >= 0) then
    return { 'exhausted' }
  end
  fence = math.max(number + 1, least)
end
-- Reckoned from the largest number on down: above it, sums of doubles are rounded.
if not (fence <= 9007199254740992 - fences) then
  return { 'exhausted' }
end

-- The lock comes last: whatever may fail before it, no permission say, leaves nothing held, and a
-- lock that holds a token has a fence that was counted for it.
local first = string.format('%.0f', fence)
redis.call('SET', KEYS[2], string.format('%.0f', fence + fences - 1), 'PX', fence_life)
redis.call('DEL', KEYS[3])
redis.call('HSET', KEYS[3], 'token', token, 'identity', ARGV[4], 'fence', first,
           'fences', ARGV[3], 'since', string.format('%.0f', micros))
redis.call('PEXPIRE', KEYS[3], ttl)
redis.call('SET', KEYS[1], token, 'PX', ttl)
return { 'granted', first, ARGV[3] }
