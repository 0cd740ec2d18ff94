-- Continues acquire.lua, unless the lock was free without waiters, or hold and claim are exclusive.

local its = queue_of(KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[6], micros, ARGV[8] == '1')
if not its.look(value or nil) then
  return { 'foreign' }
end
answer = its.again(token, ttl)
if answer then
  return answer
end
local kind = its.kind(token)
if kind and kind ~= (mode:match('/(%d+)$') or 'lock') then
  return { 'kind', kind }
end

local granted
if not its.is_exclusive() then
  its.grant_next(token)
  granted = its.grant(token, mode, ttl, fences, ARGV[4])
end
if granted then
  -- The grant remains even if further offers fail.
  pcall(its.grant_next)
end
if its.is_unfinished then
  redis.pcall('PUBLISH', ARGV[9], ARGV[10])
end
if granted then
  return { 'granted', granted, ARGV[3] }
elseif granted == false then
  return { 'exhausted' }
end
-- An offer may have changed the counter.
counter = redis.call('GET', KEYS[2])
return busy(its.describe(), its.kind_of_marker)
