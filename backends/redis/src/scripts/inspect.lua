-- Describes locks.
--
-- KEYS  for each name: lock, fence, queue, holders, meta
--
-- Returns for each name: state, highest fence, waiters; then for each holder ms left or -1, token, identity, fence,
-- broken, mode. The state is 'free', 'held', 'foreign' or 'alien' (not a string; its type follows).

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000

local function waiting(queue, meta)
  local count = 0
  for _, token in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    local record = redis.call('HGET', meta, token) or ''
    local live = record:match('^%S+ (%d+) ')
    if live and tonumber(live) > now then
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
      -- Without a record, the lock's marker shows the mode.
      mode, fence, identity = mode or shape, fence or false, identity or false
      local by = redis.call('HGET', meta, 'broken:' .. token)
      for _, word in ipairs({ left, token, identity, fence, by, mode }) do
        answer[#answer + 1] = word
      end
    end
  end
end

local answers = {}
for i = 1, #KEYS / 5 do
  local lock, fence, queue, holders, meta = unpack(KEYS, 5 * i - 4, 5 * i)
  local value = redis.pcall('GET', lock)
  local last = redis.call('GET', fence)
  if type(value) == 'table' then
    answers[i] = { 'alien', last, 0, redis.call('TYPE', lock).ok }
  else
    local answer = { 'free', last, waiting(queue, meta) }
    if value and value:match('^lockwright:%a+:%d+$') then
      append_shared(answer, value, holders, meta)
      answer[1] = #answer > 3 and 'held' or 'free'
    elseif value then
      local left = redis.call('PTTL', lock)
      local token, first, _, identity, by = parse_hold(value, last)
      if token then
        answer = { 'held', last, answer[3], left, token, identity, first or false, by or false, 'x' }
      else
        answer = { 'foreign', last, answer[3], left, false, false, false, false, 'x' }
      end
    end
    answers[i] = answer
  end
end
return answers
