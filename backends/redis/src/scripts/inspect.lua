-- Describes names.
--
-- KEYS  for each name: lock, fence, hold
--
-- Answers for each name: state, ms left or -1, highest fence, token, identity, fence, broken,
-- where the state is 'free', 'held' (by one of ours), 'foreign' (by somebody else) or 'alien'
-- (the key isn't a string).

local answers = {}
for i = 1, #KEYS / 3 do
  local lock, fence, hold = unpack(KEYS, 3 * i - 2, 3 * i)
  local value = redis.pcall('GET', lock)
  local last = redis.call('GET', fence)
  if type(value) == 'table' then
    answers[i] = { 'alien', -1, last, redis.call('TYPE', lock).ok }
  elseif not value then
    answers[i] = { 'free', -1, last }
  else
    local left = redis.call('PTTL', lock)
    local about = redis.call('HMGET', hold, 'token', 'identity', 'fence', 'broken')
    if about[1] and (value == about[1] or value == about[1] .. ':broken') then
      answers[i] = { 'held', left, last, about[1], about[2], about[3], about[4] }
    else
      answers[i] = { 'foreign', left, last }
    end
  end
end
return answers
