#!lua flags=allow-cross-slot-keys
-- Gives each key that has this value a new TTL, in ms. The keys stand among the arguments, as a Cluster's
-- node may have them in many slots.
local renewed = 0
for at = 3, #ARGV do
  if redis.call('GET', ARGV[at]) == ARGV[1] then
    renewed = renewed + redis.call('PEXPIRE', ARGV[at], ARGV[2])
  end
end
return renewed
