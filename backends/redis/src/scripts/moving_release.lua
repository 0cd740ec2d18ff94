-- Releases an exclusive hold by the lock's key only, while its slot is moving.
--
-- KEYS  lock
-- ARGV  token, wake-up channel, name
--
-- Returns 1 if it was held, else 0.

if not hold_state(redis.pcall('GET', KEYS[1]), ARGV[1]) then
  return 0
end
redis.call('DEL', KEYS[1])
-- Publish without a check for waiters, because the queue may be on another node.
redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return 1
