-- Waiters and offers.
--
-- A waiter is a token in `queue`, in order of arrival, with a record in `meta`:
--   ASKED PATIENCE LEFT MODE TTL CLIENT VALUE
-- ASKED is the time of the waiter's last request in µs. The waiter stays queued until PATIENCE ms
-- after ASKED, and its client retries LEFT ms after ASKED. A mode is 'x' (exclusive), 's' (reader)
-- or COUNT/OF (permits). VALUE is the hold's value (value.lua).

local LONGEST_OFFER = 2000

-- Returns the mode, the time in ms until which the waiter is queued, TTL, client's id and value, or
-- nil without a valid record.
local function parse_waiter(record)
  if record then
    local asked, patience, mode, ttl, client, value = record:match('^(%d+) (%d+) %d+ (%S+) (%d+) (%S+) (.*)$')
    if asked then
      return mode, asked / 1000 + patience, ttl, client, value
    end
  end
end

-- Puts a waiter back at the front of the queue by moving the others. LPUSH would need another
-- permission.
local function queue_again(queue, meta, token, record)
  redis.call('HSET', meta, token, record)
  for _ = 2, redis.call('RPUSH', queue, token) do
    redis.call('RPUSH', queue, redis.call('LPOP', queue))
  end
  local life = 2 * record:match('^%d+ (%d+)')
  extend_expiry(queue, life)
  extend_expiry(meta, life)
end

-- Sends the offer's lifetime to the next two waiters, unless they retry before the offer lapses
-- ("Expiry" in offers.rs).
local function publish_lifetime(tokens, records, from, micros, life)
  for i = from, from + 1 do
    local left = records[i] and tonumber(records[i]:match('^%d+ %d+ (%d+)'))
    -- Seldom true: LEFT is mostly the time left of an earlier offer, at most `life`.
    if left and left > life then
      local asked, client = records[i]:match('^(%d+) %d+ %d+ %S+ %d+ (%S+)')
      if asked / 1000 + left > micros / 1000 + life then
        redis.pcall('PUBLISH', 'lockwright:offered:' .. client, 'behind ' .. tokens[i] .. ' ' .. text(life))
      end
    end
  end
end
