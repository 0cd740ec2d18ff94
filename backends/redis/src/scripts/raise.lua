-- Records a quorum's fence in the hold, and raises the counter to it, if the token still holds the
-- lock. Otherwise, the counter stays, because it may be a later hold's fence.
--
-- KEYS  lock, fence, incarnation
-- ARGV  token, fence, incarnation that the client read, lifetime of a counter in ms
--
-- Returns 'raised', 'gone' or 'other-incarnation'.

if redis.call('GET', KEYS[3]) ~= ARGV[3] then
  return { 'other-incarnation' }
end
local held_token, _, fences, identity, by = parse_hold(redis.pcall('GET', KEYS[1]))
if held_token ~= ARGV[1] or by then
  return { 'gone' }
end
local last = tonumber((redis.call('GET', KEYS[2]) or ''):match('^%d+')) or 0
redis.call('SET', KEYS[2], string.format('%.0f', math.max(last, tonumber(ARGV[2]))), 'PX', ARGV[4])
redis.call('SET', KEYS[1], 'lw1:' .. ARGV[1] .. ':' .. fences .. '@' .. ARGV[2] .. ':' .. identity, 'KEEPTTL')
return { 'raised' }
