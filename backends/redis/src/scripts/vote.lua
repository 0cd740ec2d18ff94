-- Requests a node's vote.
--
-- KEYS  lock, fence, queue, tombstone of this token, incarnation
-- ARGV  token, TTL in ms, fences, identity, '1' if the client will wait, incarnation that its client read, smallest
--       permitted fence
--
-- Returns 'stranger' if the incarnation differs; else as acquire.lua, but 'busy' without a mode, not queued

local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

local token, ttl, fences = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- MGET returns nil for another type.
local value, last, ended, incarnation =
  unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[4], KEYS[5]))
if incarnation ~= ARGV[6] then
  return { 'stranger' }
elseif ended then
  return { 'ended' }
end

local answer = again(KEYS[1], KEYS[2], token, value, ttl)
if answer then
  return answer
elseif value then
  local left = redis.call('PTTL', KEYS[1])
  local holder, first, _, identity, by = exclusive_hold(value)
  if not holder then
    return { 'busy', left }
  end
  -- The release sends a wake-up. The client asks again when the hold ends, which renews this mark. A repeat writes
  -- nothing, because a write may wait for the disk.
  if ARGV[5] == '1' and redis.call('PTTL', KEYS[3]) < left + 500 then
    redis.call('ZADD', KEYS[3], 0, 'waits')
    redis.call('PEXPIRE', KEYS[3], left + 1000)
  end
  return { 'busy', left, holder, identity, first, by }
end

local fence = next_fence(last, tonumber(ARGV[7]), fences)
if not fence then
  return { 'exhausted' }
end
count_fences(KEYS[2], fence, fences, ttl)
local first = text(fence)
-- Last: if an earlier command fails, nothing is held.
local hold = new_hold(token, ARGV[4], first, ARGV[3], micros)
if redis.call('SET', KEYS[1], hold, 'PX', ttl, 'NX') then
  return { 'granted', first, ARGV[3] }
end
return { 'foreign' }
