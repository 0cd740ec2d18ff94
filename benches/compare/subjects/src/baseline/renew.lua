#!lua flags=allow-cross-slot-keys
-- Sets the TTL ARGV[2] (ms) on each key whose value is ARGV[1]. The keys are in ARGV, because a
-- Cluster node's keys may be in many slots.
local renewed = 0
for at = 3, #ARGV do
  if redis.call('GET', ARGV[at]) == ARGV[1] then
    renewed = renewed + redis.call('PEXPIRE', ARGV[at], ARGV[2])
  end
end
return renewed
