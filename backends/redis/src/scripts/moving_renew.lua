-- Renews by the lock's key only: its slot is moving.
--
-- KEYS  lock
-- ARGV  token, TTL in ms
--
-- Returns 'renewed', 'broken' or 'gone'.

local state = hold_state(redis.pcall('GET', KEYS[1]), ARGV[1])
if state == 'held' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 'renewed'
end
return state or 'gone'
