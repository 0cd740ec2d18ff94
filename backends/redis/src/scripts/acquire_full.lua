-- Continues acquire.lua.

local ttl, mode = tonumber(ARGV[2]), ARGV[3]
local answer = again(KEYS[1], KEYS[2], token, value, counter, ttl)
if answer then
  return answer
end

if mode == 'x' and not value and redis.call('EXISTS', KEYS[4]) == 0 then
  return grant(KEYS[1], KEYS[2], counter, micros / 1000, micros, ARGV[1], ttl)
end

local its = queue_of(KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[6], micros, ARGV[6] == '1')
if not its.look(value or nil) then
  return { 'foreign' }
end
answer = its.again(token, ttl)
if answer then
  return answer
end
local kind = its.kind(token)
if kind and kind ~= kind_of(mode) then
  return { 'kind' }
end

local granted
if not its.value or its.kind_of_marker then
  its.grant_next(token)
  granted = its.grant(token, mode, ttl, ARGV[1])
end
if granted then
  -- The grant remains even if offers to other waiters fail.
  pcall(its.grant_next)
end
if its.is_unfinished then
  redis.pcall('PUBLISH', ARGV[7], ARGV[8])
end
if granted then
  return { 'granted', granted, fences_of(ARGV[1]) }
elseif granted == false then
  return { 'exhausted' }
end
-- An offer may have changed the counter.
counter = redis.call('GET', KEYS[2])
local reply = its.describe(counter)
if reply[1] == 'busy' and reply[3] then
  recall(reply[3])
end
if patience == 0 then
  return reply
end
mark_counter(KEYS[2], micros, patience, counter)
local at, before, micros_text = #reply, queue_claim(reply[2], reply[1] == 'shared')
reply[at + 1], reply[at + 2] = before, micros_text
return reply
