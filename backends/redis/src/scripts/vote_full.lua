-- Replies to a repeated vote, reports a holder, or finds why the lock can't be granted.

local token, _, fences, identity = parse_hold(ARGV[1])
local ttl = tonumber(ARGV[2])
local answer = again(KEYS[1], token, value, counter, ttl)
if answer then
  return answer
elseif value then
  local left = redis.call('PTTL', KEYS[1])
  local held_token, fence, _, holder, by = parse_hold(value, counter)
  if not held_token then
    return { 'busy', left }
  end
  -- The mark makes the release send a wake-up. It outlives the hold by up to 1 s, and the client asks again before
  -- that. A repeated vote doesn't write, because a write may wait for the disk, and fails on a full node.
  if ARGV[6] == '1' and redis.call('PTTL', KEYS[3]) < left + 500 then
    redis.call('ZADD', KEYS[3], 0, 'waiting')
    redis.call('PEXPIRE', KEYS[3], left + 1000)
  end
  return { 'busy', left, held_token, holder, fence or false, by }
end

-- `math.huge` as the time removes the counter's mark, which only the fast scripts need.
return grant(KEYS[1], KEYS[2], counter, math.huge, first, token, ttl, tonumber(fences), identity)
