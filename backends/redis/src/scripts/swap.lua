-- Transfers a hold to another token, for a ticket.
--
-- KEYS  lock, fence, tombstones of the new and the old token, queue, holders, meta
-- ARGV  the new hold's value (value.lua), TTL in ms, mode, old token, lifetime of its tombstone in
--       ms
--
-- Returns 'granted', 'again' or 'exhausted' as acquire.lua, with one fence;
--   'busy', ms left or -1    the old token doesn't hold, or was broken
--   'ended'                  the new token was released or broken before

local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

local token, ttl, mode, from = ARGV[1]:sub(5, 36), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local value, counter, ended = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3]))
if ended then
  return { 'ended' }
end
if value and value:match('^lockwright:%a+:%d+$') then
  local its = queue_of(KEYS[1], KEYS[2], KEYS[5], KEYS[6], KEYS[7], micros, false)
  its.look()
  local answer = its.again(token, ttl)
  if answer then
    return answer
  end
  local holds, _, left, _, by = its.holder(from)
  if holds ~= mode or by then
    return { 'busy', left or -1 }
  end
  -- A late duplicate of the old token's acquire must not be granted.
  redis.call('SET', KEYS[4], 'released', 'PX', ARGV[5])
  local first = its.rename(from, token, mode, ttl, ARGV[1])
  if not first then
    return { 'exhausted' }
  end
  return { 'granted', first, '1' }
end
local answer = again(KEYS[1], KEYS[2], token, value, counter, ttl)
if answer then
  return answer
elseif mode ~= 'x' or hold_state(value, from) ~= 'held' then
  return { 'busy', value and redis.call('PTTL', KEYS[1]) or -1 }
end

local last, marked_until = parse_counter(counter)
local fence = next_fence(last, micros, 1)
if not fence then
  return { 'exhausted' }
end

local now = math.floor(micros / 1000)
count_fences(KEYS[2], fence, math.max(marked_until, now + ARGV[5]), now, ttl)
redis.call('SET', KEYS[4], 'released', 'PX', ARGV[5])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
return { 'granted', text(fence), '1' }
