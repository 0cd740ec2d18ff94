-- Requests a node's vote. vote_full.lua follows. The usual case is decided here: see fast_acquire.lua.
--
-- KEYS  lock, fence, queue (here only a mark that clients wait), tombstone of this token, incarnation
-- ARGV  token, TTL in ms, fences, identity, '1' if the client will wait, incarnation that its client read, smallest
--       permitted fence
--
-- Returns 'other-incarnation' if the incarnation differs; else as acquire.lua, but 'busy' without a mode, not queued

local ttl, fences = tonumber(ARGV[2]), tonumber(ARGV[3])
-- MGET returns nil for a key of another type. SET fails for such a lock.
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[4], KEYS[5])
local value, counter = found[1], found[2]
if found[4] ~= ARGV[6] then
  return { 'other-incarnation' }
elseif found[3] then
  return { 'ended' }
end

if not value and (not counter or counter:find('^%d+$')) then
  local first = math.max(tonumber(counter or 0) + 1, tonumber(ARGV[7]))
  if first <= 9007199254740992 - fences then
    -- As grant in exclusive.lua.
    redis.call('SET', KEYS[2], first + fences - 1, 'PX', ttl + 604800000)
    local hold = 'lw1:' .. ARGV[1] .. ':' .. ARGV[3] .. ':' .. ARGV[4]
    if redis.call('SET', KEYS[1], hold, 'PX', ARGV[2], 'NX') then
      return { 'granted', string.format('%d', first), ARGV[3] }
    end
  end
end

