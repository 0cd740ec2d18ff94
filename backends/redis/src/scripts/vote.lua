-- Requests a node's vote.
--
-- KEYS  lock, fence, hold, tombstone of this token, incarnation
-- ARGV  token, TTL in ms, fences, identity, '1' if the client will wait, incarnation that its client read, smallest
--       permitted fence
--
-- Returns 'stranger' if the incarnation differs; else as acquire.lua, but 'busy' without a mode, not queued

local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

if redis.call('GET', KEYS[5]) ~= ARGV[6] then
  return { 'stranger' }
end

local token, ttl, fences = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- MGET returns nil for another type; EXISTS detects it.
local value, last, ended = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[4]))
if ended then
  return { 'ended' }
end

local answer = again(KEYS[1], KEYS[2], KEYS[3], token, value, last, ttl)
if answer then
  return answer
elseif value and value ~= token then
  local hold =
    redis.call('HMGET', KEYS[3], 'token', 'identity', 'fence', 'broken', 'waited')
  local left = redis.call('PTTL', KEYS[1])
  if hold[1] ~= value and (hold[1] or '') .. ':broken' ~= value then
    return { 'busy', left }
  end
  -- The release sends a wake-up.
  if ARGV[5] == '1' and not hold[5] then
    redis.call('HSET', KEYS[3], 'waited', '1')
  end
  return { 'busy', left, hold[1], hold[2], hold[3], hold[4] }
end

if not value and redis.call('EXISTS', KEYS[1]) == 1 then
  return { 'foreign' }
end

local fence = next_fence(last, tonumber(ARGV[7]), fences)
if not fence then
  return { 'exhausted' }
end
count_fences(KEYS[2], fence, fences, ttl)
local first = text(fence)
hold_exclusive(KEYS[1], KEYS[3], token, ARGV[4], first, ARGV[3], micros, ttl)
return { 'granted', first, ARGV[3] }
