-- Arms holds again for their full TTL: each one that its token still has.
--
-- KEYS  for each hold: lock, fence, hold, tombstone of the token; after them, for a node of a
--       quorum: its certificate
-- ARGV  for each hold: token, TTL in ms; after them, for a node of a quorum: the certificate that
--       its client saw
--
-- Answers for each hold 'renewed', 'broken' or 'gone'. What expired isn't there any more, so it
-- can't be revived; what was broken holds another value, so it isn't armed again. Or only
-- 'stranger', when the certificate isn't the one that its client saw.

if #KEYS % 4 == 1 and redis.call('GET', KEYS[#KEYS]) ~= ARGV[#ARGV] then
  return { 'stranger' }
end

local answers = {}
for i = 1, math.floor(#KEYS / 4) do
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
