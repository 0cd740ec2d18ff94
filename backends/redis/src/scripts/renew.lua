-- Renews each hold that its token still has, for its full TTL.
--
-- KEYS  for each exclusive hold: lock, fence, tombstone; for each other: lock, fence, holders, tombstone, meta; last,
--       on a quorum's node: incarnation. In a Cluster the fence replaces the tombstone, so that all keys exist
-- ARGV  for each hold: token, TTL in ms, 'x' if exclusive, else 's'; last, on a quorum's node: incarnation that its
--       client read
--
-- Returns for each hold 'renewed', 'broken' or 'gone'; or only 'stranger' if the incarnation differs.

if #ARGV % 3 == 1 and redis.call('GET', KEYS[#KEYS]) ~= ARGV[#ARGV] then
  return { 'stranger' }
end

local answers, at, now = {}, 1, nil

local function keep(key, life)
  if redis.call('PTTL', key) < life then
    redis.call('PEXPIRE', key, life)
  end
end

local function renew(lock, fence, holders, meta, token, ttl)
  if not now then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
  end
  local value = redis.pcall('GET', lock)
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
  keep(fence, ttl + 604800000)
  keep(meta, ttl + 2)
  expire_in(holders, token, ttl, clock)
  return 'renewed'
end

for i = 1, math.floor(#ARGV / 3) do
  local token, ttl = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1])
  local answer
  if ARGV[3 * i] == 'x' then
    local lock, fence = KEYS[at], KEYS[at + 1]
    -- One foreign type must not fail the whole batch.
    local state = hold_state(redis.pcall('GET', lock), token)
    if state == 'held' then
      -- A counter in use isn't idle.
      redis.call('PEXPIRE', fence, ttl + 604800000)
      redis.call('PEXPIRE', lock, ttl)
      answer = 'renewed'
    else
      answer = state or 'gone'
    end
  else
    local lock, fence, holders = unpack(KEYS, at, at + 2)
    answer = renew(lock, fence, holders, KEYS[at + 4], token, ttl)
  end
  local tombstone = at + (ARGV[3 * i] == 'x' and 2 or 3)
  if answer == 'gone' then
    local note = redis.call('GET', KEYS[tombstone])
    answer = note and note:sub(1, 6) == 'broken' and 'broken' or 'gone'
  end
  answers[i] = answer
  at = tombstone + (ARGV[3 * i] == 'x' and 1 or 2)
end
return answers
