-- An operator's forced release of an observed hold.
--
-- KEYS  lock, fence, hold, tombstone of the observed token, queue, holders, meta
-- ARGV  observed token, '1' if any holder will do, 'now' or 'run-out', operator and reason, lifetime of a tombstone in
--       ms, wake-up channel, name, channel for breaks, '1' if receivers can be counted
--
-- Returns
--   'free'             not held, or not by the observed token
--   'freed', ms        deleted; the time that the hold had left (-1: no end)
--   'runs-out', ms     can't be renewed
--   'retry'            the holder has changed
--   'unbreakable'      can't run out: a foreign holder, which can renew, or no expiry
--   'foreign'          not a string

local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

local seen, any, how, note = ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4]
local its = queue_of(KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6], KEYS[7], micros, ARGV[9] == '1')

-- Wakes all waiters: the operator's client may exit before an offer lapses.
local function publish_break()
  redis.pcall('PUBLISH', ARGV[8], 'now ' .. seen)
  -- Broken already, even if this fails.
  pcall(its.grant_next)
  redis.pcall('PUBLISH', ARGV[6], ARGV[7])
end

if not its.look() then
  return { 'foreign' }
end
local value = its.value
if not value then
  return { 'free' }
end
if its.kind_of_marker then
  local _, _, left, _, by = its.holder(seen)
  if not left then
    return { any and 'retry' or 'free' }
  elseif how == 'run-out' then
    redis.call('HSET', KEYS[7], 'broken:' .. seen, by or note)
    redis.pcall('PUBLISH', ARGV[8], 'run-out ' .. seen)
    return { 'runs-out', left }
  end
  redis.call('SET', KEYS[4], 'broken ' .. note, 'PX', math.max(tonumber(ARGV[5]), left))
  its.leave(seen)
  publish_break()
  return { 'freed', left }
end
local known = redis.call('HGET', KEYS[3], 'token')
local lockwright_holds = known and (value == known or value == known .. ':broken')
if any then
  if lockwright_holds and known ~= seen then
    return { 'retry' }
  end
elseif value ~= seen and value ~= seen .. ':broken' then
  return { 'free' }
end

local left = redis.call('PTTL', KEYS[1])
if not lockwright_holds and any then
  -- A foreign holder has no fences, and renews by its own value.
  if how == 'run-out' then
    return { 'unbreakable' }
  end
  redis.call('DEL', KEYS[1])
  its.value = false
  pcall(its.grant_next)
  return { 'freed', left }
end

if how == 'run-out' and left < 0 then
  return { 'unbreakable' }
end
-- 0 in its last millisecond, which SET rejects.
local life = math.max(left, 1)
-- The counter is at the end of the block of fences that the holder may have reserved.
local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
redis.call('SET', KEYS[2], text(math.max(last + 1, micros)),
           'PX', life + IDLE_FENCE)
if how == 'run-out' then
  -- No break is recorded if PEXPIRE isn't permitted.
  local described = redis.call('PEXPIRE', KEYS[3], life)
  if value == seen or redis.call('HEXISTS', KEYS[3], 'broken') == 0 then
    redis.call('HSET', KEYS[3], 'broken', note)
  end
  if described == 0 then
    redis.call('PEXPIRE', KEYS[3], life)
  end
  -- No renewal matches this value, and the expiry stays.
  redis.call('SET', KEYS[1], seen .. ':broken', 'PX', life)
  redis.pcall('PUBLISH', ARGV[8], 'run-out ' .. seen)
  return { 'runs-out', left }
end
redis.call('SET', KEYS[4], 'broken ' .. note, 'PX', math.max(tonumber(ARGV[5]), life))
redis.call('DEL', KEYS[1], KEYS[3])
its.value = false
publish_break()
return { 'freed', left }
