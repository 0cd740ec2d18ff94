-- Renews each hold that its token still has, for its full TTL.
--
-- KEYS  for each hold: lock; for 'f' also fence; for 's' also fence, holders, meta. Last, on a quorum's node: incarnation
-- ARGV  TTL in ms; incarnation that the client read, or ''; for each hold: the token of an exclusive hold with that TTL,
--       else TOKEN:TTL:KIND. The kind is 'x' (exclusive), 'f' (exclusive, and extends its counter's expiry) or 's'.
--
-- Returns for each hold 'renewed', 'broken' or 'gone'; or only 'other-incarnation' if the incarnation differs.

-- MGET returns nil for a key of another type, which must not fail the whole batch.
local values = redis.call('MGET', unpack(KEYS))
if ARGV[2] ~= '' and values[#KEYS] ~= ARGV[2] then
  return { 'other-incarnation' }
end

local answers, at, now = {}, 1, nil

local function renew_shared(value, lock, fence, holders, meta, token, ttl)
  if not now then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
  end
  if not value or not value:match('^lockwright:%a+:%d+$') then
    return 'gone'
  end
  local clock = time_of(holders, math.floor(now))
  local expires = tonumber(redis.call('ZSCORE', holders, token) or 0)
  if expires <= clock then
    return 'gone'
  elseif redis.call('HEXISTS', meta, 'broken:' .. token) == 1 then
    return 'broken'
  end
  -- A full server rejects a script whose first write could use memory. PEXPIRE can't.
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl + 2))
  extend_expiry(fence, ttl + IDLE_FENCE)
  extend_expiry(meta, ttl + 2)
  expire_in(holders, token, ttl, clock)
  return 'renewed'
end

local call, find = redis.call, string.find
for i = 3, #ARGV do
  local lock, value, token, ttl, kind = KEYS[at], values[at], ARGV[i], ARGV[1], 'x'
  at = at + 1
  if #token > 32 then
    token, ttl, kind = token:match('^(%x+):(%d+):(%a)$')
  elseif value and find(value, token, 5, true) == 5 and find(value, 'lw1:', 1, true) == 1 then
    -- The usual case, without another function or string.
    call('PEXPIRE', lock, ttl)
    answers[i - 2], kind = 'renewed', nil
  end
  if kind == 's' then
    answers[i - 2] = renew_shared(value, lock, KEYS[at], KEYS[at + 1], KEYS[at + 2], token, tonumber(ttl))
    at = at + 3
  elseif kind then
    local state = hold_state(value, token)
    if state == 'held' then
      redis.call('PEXPIRE', lock, ttl)
      state = 'renewed'
    end
    answers[i - 2] = state or 'gone'
    if kind == 'f' then
      extend_expiry(KEYS[at], ttl + IDLE_FENCE)
      at = at + 1
    end
  end
end
return answers
