-- Marks a fence counter before a tombstone is written: the slot is moving. Needs value.lua and exclusive.lua.
--
-- KEYS  fence
-- ARGV  lifetime of the tombstone in ms

local time = redis.call('TIME')
keep_from_light(KEYS[1], redis.call('GET', KEYS[1]), tonumber(time[1]) * 1000000 + tonumber(time[2]), tonumber(ARGV[1]))
return 1
