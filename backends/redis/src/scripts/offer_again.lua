-- Offers a free lock to the next waiter, after an offer has lapsed.
--
-- KEYS  lock, fence, queue, holders, meta
-- ARGV  '1' if PUBLISH counts all receivers, wake-up channel, name
--
-- Returns the lifetime of a new offer in ms, else 0.

if redis.call('EXISTS', KEYS[3]) == 0 then
  return 0
end
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
local its = queue_of(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], micros, ARGV[1] == '1')
if not its.look() then
  return 0
end
local life = its.grant_next()
if its.is_unfinished then
  redis.pcall('PUBLISH', ARGV[2], ARGV[3])
end
return life
