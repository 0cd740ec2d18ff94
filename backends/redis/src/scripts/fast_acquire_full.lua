-- Reports the holder.

local value, counter = redis.pcall('GET', KEYS[1]), redis.pcall('GET', KEYS[2])
local held_token, first, _, identity, by = parse_hold(value, counter)
if not held_token or held_token == parse_hold(ARGV[1]) then
  return -1
end
return { 'busy', redis.call('PTTL', KEYS[1]), held_token, identity, first, by or false, 'x' }
