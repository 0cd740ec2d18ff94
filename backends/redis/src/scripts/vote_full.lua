-- Continues vote.lua.

local ttl = tonumber(ARGV[2])
local answer = again(KEYS[1], KEYS[2], ARGV[1]:sub(5, 36), value, counter, ttl)
if answer then
  return answer
elseif value then
  local left, is_hold = redis.call('PTTL', KEYS[1]), value:find('^lw1[:!]') ~= nil
  -- On a node, the queue is a flag that makes the release send a wake-up. The flag outlives the
  -- hold by 0.5 to 1 s, and the client retries before. A long enough flag isn't extended: a write
  -- may wait for the disk, and fails on a full node.
  local flag_left = ARGV[6] == '1' and is_hold and redis.call('PTTL', KEYS[3])
  if flag_left and flag_left < left + 500 then
    if flag_left == -2 then
      redis.call('RPUSH', KEYS[3], 'waiting')
    end
    redis.call('PEXPIRE', KEYS[3], left + 1000)
  end
  return { 'busy', left, is_hold and value, counter }
end

-- `math.huge` as the time removes the counter's mark, which only the fast scripts need.
return grant(KEYS[1], KEYS[2], counter, math.huge, first, ARGV[1], ttl)
