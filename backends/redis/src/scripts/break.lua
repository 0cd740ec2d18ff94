-- Breaks a hold that an operator has observed.
--
-- KEYS  lock, fence, tombstone of the observed token, queue, holders, meta
-- ARGV  observed token, '1' to break any holder, 'now' or 'run-out', operator and reason,
--       lifetime of a tombstone in ms, wake-up channel, name, channel for breaks, '1' if PUBLISH
--       counts all receivers
--
-- Returns
--   'free'             not held, or not by the observed token
--   'freed', ms        deleted; the time that the hold had left (-1: no end)
--   'runs-out', ms     can't be renewed; the time left
--   'retry'            the holder has changed, and any holder is to be broken
--   'unbreakable'      can't run out: another library can renew it, or it has no expiry
--   'foreign'          the lock's key isn't a string

local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

local seen, any, how, note = ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4]
local its = queue_of(KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[6], micros, ARGV[9] == '1')

-- The hold is broken even if the offer fails.
local function offer()
  pcall(function()
    -- its.look() forgets holders without a marker (shared_and_permits.lua), which an offer's new
    -- marker would revive.
    if its.value or its.look(false) then
      its.grant_next()
    end
  end)
end

-- Wakes all waiters too, because the operator's client may exit before the offer lapses.
local function publish_break()
  redis.pcall('PUBLISH', ARGV[8], 'now ' .. seen)
  offer()
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
    redis.call('HSET', KEYS[6], 'broken:' .. seen, by or note)
    redis.pcall('PUBLISH', ARGV[8], 'run-out ' .. seen)
    return { 'runs-out', left }
  end
  redis.call('SET', KEYS[3], 'broken ' .. note, 'PX', math.max(tonumber(ARGV[5]), left))
  its.leave(seen)
  publish_break()
  return { 'freed', left }
end
local counter = redis.call('GET', KEYS[2])
local held_token, first, fences, identity, by = parse_hold(value, counter)
if any then
  if held_token and held_token ~= seen then
    return { 'retry' }
  end
elseif held_token ~= seen then
  return { 'free' }
end

local left = redis.call('PTTL', KEYS[1])
if not held_token then
  -- Another library's hold has no fences, and can be renewed despite a break.
  if how == 'run-out' then
    return { 'unbreakable' }
  end
  redis.call('DEL', KEYS[1])
  its.value = false
  offer()
  return { 'freed', left }
end

if how == 'run-out' and left < 0 then
  return { 'unbreakable' }
end
-- PTTL is 0 in the hold's last millisecond, and SET rejects 0.
local life = math.max(left, 1)
-- Raise the counter, so the hold's reserved fences aren't granted again.
local last, marked_until = parse_counter(counter)
local tombstone_life = math.max(tonumber(ARGV[5]), life)
local now = math.floor(micros / 1000)
count_fences(KEYS[2], math.max((last or 0) + 1, micros), math.max(marked_until, now + tombstone_life), now, life)
if how == 'run-out' then
  -- Renewals don't match the new value, and the expiry stays. A second break keeps the first
  -- operator.
  if not by then
    local known = first and '@' .. first or ''
    local broken = 'lw1!' .. seen .. ':' .. fences .. known .. ':' .. identity .. '\n' .. note
    redis.call('SET', KEYS[1], broken, 'PX', life)
  end
  redis.pcall('PUBLISH', ARGV[8], 'run-out ' .. seen)
  return { 'runs-out', left }
end
redis.call('SET', KEYS[3], 'broken ' .. note, 'PX', tombstone_life)
redis.call('DEL', KEYS[1])
its.value = false
publish_break()
return { 'freed', left }
