-- Extends or removes a hold's description while its slot moves.
--
-- KEYS  hold
-- ARGV  token, TTL in ms, or 0 to remove it

if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
