-- Restarts the TTL of each hold whose token still holds the lock.
--
-- KEYS  for each hold: lock; for 'f' also fence; for 's' also fence, holders, meta. Last, on a
--       quorum's node: incarnation
-- ARGV  TTL in ms; incarnation that the client read, or ''; for each hold: lw1:TOKEN (exclusive,
--       with that TTL) or lw1:TOKEN:TTL:KIND. The kind is 'x' (exclusive), 'f' (exclusive; also
--       extends the expiry of the fence counter) or 's' (reader or permits).
--
-- Returns 'renewed', 'broken' or 'gone' for each hold, a single 'renewed' if all are renewed, or a
-- single 'other-incarnation' if the incarnation differs.

if ARGV[2] ~= '' and get_string(KEYS[#KEYS]) ~= ARGV[2] then
  return { 'other-incarnation' }
end

local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000

local function renew_shared(value, lock, fence, holders, meta, token, ttl)
  if type(value) ~= 'string' or not value:match('^lockwright:%a+:%d+$') then
    return 'gone'
  end
  local now = math.floor(now)
  local clock = time_of(holders, now)
  local expires = tonumber(redis.call('ZSCORE', holders, token) or 0)
  if expires <= clock then
    return 'gone'
  elseif redis.call('HEXISTS', meta, 'broken:' .. token) == 1 then
    return 'broken'
  end
  -- PEXPIRE is the first write (see release.lua).
  redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), ttl + 2))
  extend_expiry(fence, ttl + IDLE_FENCE)
  extend_expiry(meta, ttl + 2)
  expire_in(holders, token, ttl, clock, now)
  return 'renewed'
end

local call, pcall, keys, arguments, common = redis.call, redis.pcall, KEYS, ARGV, ARGV[1]
local at, expires = 1, text(math.ceil(now + common))
-- The replies for holds outside the usual case below. Nil if all holds are usual.
local answers
for i = 3, #arguments do
  local lock, argument = keys[at], arguments[i]
  at = at + 1
  -- The usual case creates few strings, for speed. The server would rewrite PEXPIRE as PEXPIREAT.
  -- GETRANGE reads 'lw1:' and the token, and fails for a key of another type.
  local head = pcall('GETRANGE', lock, '0', '35')
  if head == argument then
    call('PEXPIREAT', lock, expires)
  elseif type(head) == 'table' and not head.err:find('WRONGTYPE', 1, true) then
    return head
  else
    local token, ttl, kind = argument:match('^lw1:(%x+):?(%d*):?(%a?)$')
    local value, answer = get_string(lock), nil
    if kind == 's' then
      answer = renew_shared(value, lock, keys[at], keys[at + 1], keys[at + 2], token, tonumber(ttl))
      at = at + 3
    else
      answer = hold_state(value, token) or 'gone'
      if answer == 'held' then
        call('PEXPIRE', lock, ttl)
        answer = 'renewed'
      end
      if kind == 'f' then
        extend_expiry(keys[at], ttl + IDLE_FENCE)
        at = at + 1
      end
    end
    answers = answers or {}
    answers[i - 2] = answer
  end
end
if not answers then
  return { 'renewed' }
end
for i = 1, #arguments - 2 do
  answers[i] = answers[i] or 'renewed'
end
return answers
