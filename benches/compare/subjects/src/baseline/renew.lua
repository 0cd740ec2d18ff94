#!lua flags=allow-cross-slot-keys
-- Sets a new TTL (ms) on each key that has this value. The keys are arguments, because those on a
-- Cluster's node may be in many slots.
local renewed = 0
for at = 3, #ARGV do
  if redis.call('GET', ARGV[at]) == ARGV[1] then
    renewed = renewed + redis.call('PEXPIRE', ARGV[at], ARGV[2])
  end
end
return renewed
