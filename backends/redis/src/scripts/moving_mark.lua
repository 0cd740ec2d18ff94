-- While the slot moves, marks a fence counter before a tombstone is written.
--
-- KEYS  fence
-- ARGV  lifetime of the tombstone in ms

local time = redis.call('TIME')
mark_counter(KEYS[1], tonumber(time[1]) * 1000000 + tonumber(time[2]), tonumber(ARGV[1]))
return 1
