-- Renews each hold that its token still has, for its full TTL.
--
-- KEYS  for each hold: lock ('x'); lock, fence ('f'); lock, fence, holders, meta ('s'); last, on a quorum's node:
--       incarnation
-- ARGV  for each hold: token, TTL in ms, and 'x' if it is exclusive, 'f' to extend its counter's expiry too, or 's';
--       last, on a quorum's node: incarnation that its client read
--
-- Returns for each hold 'renewed', 'broken' or 'gone'; or only 'stranger' if the incarnation differs.

if #ARGV % 3 == 1 and redis.call('GET', KEYS[#KEYS]) ~= ARGV[#ARGV] then
  return { 'stranger' }
end

local answers, at, now = {}, 1, nil

local function renew(lock, fence, holders, meta, token, ttl)
  if not now then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
  end
  local value = get_string(lock)
  if type(value) ~= 'string' or not value:match('^lockwright:%a+:%d+$') then
    return 'gone'
  end
  local clock = time_of(holders, math.floor(now))
  local expires = tonumber(redis.call('ZSCORE', holders, token) or 0)
  if expires <= clock then
    return 'gone'
  elseif redis.call('HEXISTS', meta, 'broken:' .. token) == 1 then
    return 'broken'
  end
  -- A full server rejects a script whose first write could use memory. This one can't.
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl + 2))
  extend_expiry(fence, ttl + IDLE_FENCE)
  extend_expiry(meta, ttl + 2)
  expire_in(holders, token, ttl, clock)
  return 'renewed'
end

for i = 1, math.floor(#ARGV / 3) do
  local token, ttl = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1])
  local kind = ARGV[3 * i]
  if kind == 's' then
    answers[i] = renew(KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], token, ttl)
    at = at + 4
  else
    -- One foreign type must not fail the whole batch.
    local state = hold_state(get_string(KEYS[at]), token)
    if state == 'held' then
      redis.call('PEXPIRE', KEYS[at], ARGV[3 * i - 1])
      state = 'renewed'
    end
    answers[i] = state or 'gone'
    at = at + 1
    if kind == 'f' then
      extend_expiry(KEYS[at], ttl + IDLE_FENCE)
      at = at + 1
    end
  end
end
return answers
