-- Requests a node's vote. For speed, this part decides the usual case without creating functions.
-- vote_full.lua continues it.
--
-- KEYS  lock, fence, queue (here only a flag that clients wait), tombstone of this token,
--       incarnation
-- ARGV  the hold's value (value.lua), TTL in ms, smallest permitted fence, incarnation that the
--       client read, lifetime of a new counter in ms, '1' if the client will wait
--
-- Returns the fence of a new hold, 'other-incarnation' if the incarnation differs, else as
-- acquire.lua.

-- MGET returns nil for a key that isn't a string. SET NX then fails.
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[4], KEYS[5])
local value, counter = found[1], found[2]
if found[4] ~= ARGV[4] then
  return { 'other-incarnation' }
elseif found[3] then
  return { 'ended' }
end

local first = tonumber(ARGV[3])
-- vote_full.lua handles a counter with a mark.
local is_usable = not counter or counter:find('^%d+$')
if not value and is_usable and tonumber(counter or 0) < first and ARGV[1]:find(':1:', 37, true) == 37 then
  -- As grant() in exclusive.lua, with one fence.
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[5])
  if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
    return first
  end
end

