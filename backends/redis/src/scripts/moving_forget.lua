-- Removes what describes a hold, if it is still this token's.
--
-- KEYS  hold
-- ARGV  token

if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
