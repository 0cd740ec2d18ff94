-- Raises the counter to a quorum's fence, if the token still holds: a late request must not raise it
-- beyond the fence of a later hold.
--
-- KEYS  lock, fence, incarnation
-- ARGV  token, fence, incarnation that its client read, lifetime of a counter in ms
--
-- Returns 'raised', 'gone' or 'other-incarnation'.

if redis.call('GET', KEYS[3]) ~= ARGV[3] then
  return { 'other-incarnation' }
end
if hold_state(redis.pcall('GET', KEYS[1]), ARGV[1]) ~= 'held' then
  return { 'gone' }
end
local last = tonumber((redis.call('GET', KEYS[2]) or ''):match('^%d+')) or 0
redis.call('SET', KEYS[2], string.format('%.0f', math.max(last, tonumber(ARGV[2]))), 'PX', ARGV[4])
return { 'raised' }
