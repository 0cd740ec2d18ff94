-- Renews by the lock's key only: its slot is moving.
--
-- KEYS  lock
-- ARGV  token, TTL in ms
--
-- Returns 'renewed', 'broken' or 'gone'.

local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 'renewed'
end
return value == ARGV[1] .. ':broken' and 'broken' or 'gone'
