-- Requests a node's vote.
--
-- KEYS  lock, fence, queue (here only a mark that clients wait), tombstone of this token, incarnation
-- ARGV  token, TTL in ms, fences, identity, '1' if the client will wait, incarnation that its client read, smallest
--       permitted fence
--
-- Returns 'stranger' if the incarnation differs; else as acquire.lua, but 'busy' without a mode, not queued

local token, ttl, fences = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- MGET returns nil for a key of another type, which grant() detects.
local value, counter, ended, incarnation =
  unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[4], KEYS[5]))
if incarnation ~= ARGV[6] then
  return { 'stranger' }
elseif ended then
  return { 'ended' }
end

local answer = again(KEYS[1], token, value, ttl)
if answer then
  return answer
elseif value then
  local left = redis.call('PTTL', KEYS[1])
  local held_token, first, _, identity, by = parse_hold(value)
  if not held_token then
    return { 'busy', left }
  end
  -- The mark makes the release send a wake-up. It outlives the hold by up to 1 s, and the client asks again before
  -- that. A repeated vote doesn't write, because a write may wait for the disk, and fails on a full node.
  if ARGV[5] == '1' and redis.call('PTTL', KEYS[3]) < left + 500 then
    redis.call('ZADD', KEYS[3], 0, 'waiting')
    redis.call('PEXPIRE', KEYS[3], left + 1000)
  end
  return { 'busy', left, held_token, identity, first, by }
end

-- A mark has no use here, and the time isn't read.
return grant(KEYS[1], KEYS[2], counter, math.huge, tonumber(ARGV[7]), token, ttl, fences, ARGV[4])
