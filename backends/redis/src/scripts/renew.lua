-- Arms holds again for their full TTL: each one that its token still has.
--
-- KEYS  for each hold: lock, fence, hold, tombstone of the token
-- ARGV  for each hold: token, TTL in ms
--
-- Answers for each hold 'renewed', 'broken' or 'gone'. What expired isn't there any more, so it
-- can't be revived; what was broken holds another value, so it isn't armed again.

local answers = {}
for i = 1, #ARGV / 2 do
  local lock, fence, hold, tombstone = unpack(KEYS, 4 * i - 3, 4 * i)
  local token, ttl = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  -- One key of a foreign type must not fail the whole batch.
  local value = redis.pcall('GET', lock)
  if value == token then
    -- A counter in use isn't idle.
    redis.call('PEXPIRE', fence, ttl + 604800000)
    redis.call('PEXPIRE', hold, ttl)
    redis.call('PEXPIRE', lock, ttl)
    answers[i] = 'renewed'
  else
    local note = redis.call('GET', tombstone)
    local broken = value == token .. ':broken' or (note and note:sub(1, 6) == 'broken')
    answers[i] = broken and 'broken' or 'gone'
  end
end
return answers
