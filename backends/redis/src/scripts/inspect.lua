-- Describes locks.
--
-- KEYS  for each name: lock, fence, queue, holders, meta; or, in a moving slot, only one lock, for
--       an answer without the other keys' data
--
-- Returns for each name one of
--   'free', counter, waiters
--   'busy', counter, waiters, ms left or -1, value    held exclusively, or by another library
--   'shared', counter, waiters; for each holder ms left, token, identity, fence, broken, mode
--   'alien', counter, 0, type                         the lock's key isn't a string

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000

-- Counts the waiters. Of a long queue, only the first 1,000 are examined, because the server runs
-- nothing else during a script. The others count as unexpired.
local function waiting(queue, meta)
  local tokens = redis.call('LRANGE', queue, 0, -1)
  local count = math.max(#tokens - 1000, 0)
  for i = 1, #tokens - count do
    local token = tokens[i]
    local record = redis.call('HGET', meta, token) or ''
    local asked, patience = record:match('^(%d+) (%d+) ')
    if asked and asked / 1000 + patience > now then
      count = count + 1
    end
  end
  return count
end

local function append_shared(answer, value, holders, meta)
  local permits = value:match('^lockwright:permits:(%d+)$')
  local shape = permits and '1/' .. permits or 's'
  local at = time_of(holders, now)
  local all = redis.call('ZRANGE', holders, 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    local token, left = all[i], math.ceil(all[i + 1] - at)
    if left > 0 then
      local record = redis.call('HGET', meta, token) or ''
      local mode, fence, identity = record:match('^(%S+) (%d+) %d+ (.*)$')
      -- Without a record, assume a reader or one permit.
      mode, fence, identity = mode or shape, fence or false, identity or false
      local by = redis.call('HGET', meta, 'broken:' .. token)
      for _, word in ipairs({ left, token, identity, fence, by, mode }) do
        answer[#answer + 1] = word
      end
    end
  end
end

local values, queues = redis.call('MGET', unpack(KEYS)), {}
for i = 3, #KEYS, 5 do
  queues[#queues + 1] = KEYS[i]
end
local has_queue = #queues > 0 and redis.call('EXISTS', unpack(queues)) > 0

local answers = {}
for i = 1, math.ceil(#KEYS / 5) do
  local lock, fence, queue, holders, meta = unpack(KEYS, 5 * i - 4, 5 * i)
  local value, last = values[5 * i - 4], fence and values[5 * i - 3] or false
  local kind = value and 'string' or redis.call('TYPE', lock).ok
  if kind ~= 'string' and kind ~= 'none' then
    answers[i] = { 'alien', last, 0, kind }
  else
    local answer = { 'free', last, queue and (has_queue and waiting(queue, meta) or 0) or false }
    if value and value:match('^lockwright:%a+:%d+$') then
      answer[1] = 'shared'
      if holders then
        append_shared(answer, value, holders, meta)
      end
    elseif value then
      answer = { 'busy', last, answer[3], redis.call('PTTL', lock), value:find('^lw1[:!]') and value or false }
    end
    answers[i] = answer
  end
end
return answers
