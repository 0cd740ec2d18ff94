-- Acquires a lock: grants it, repeats an earlier grant, or reports the holder and queues the claim.
-- For speed, this part decides the usual case of a busy lock without creating further functions:
-- claim and holder are exclusive, and the counter's mark (exclusive.lua) outlasts the patience.
-- acquire_full.lua continues it.
--
-- KEYS  lock, fence, tombstone of this token, queue, holders, meta
-- ARGV  the hold's value (value.lua), TTL in ms, mode, patience: how many ms the claim stays queued
--       after its last request ('0': not queued), client's id, '1' if PUBLISH counts all receivers,
--       wake-up channel, name
--
-- Returns
--   'granted', first fence, fences           held for the full TTL
--   'again', first fence, fences             held before, or offered; extended to the full TTL
--   'again', first fence, fences, ms left    a broken hold: not extended
--   'busy', ms left or -1, value, counter    held exclusively. No value: held by another library, or
--                                            free but queued for
--   'shared', ms left, token, identity, fence, broken, mode     held by readers or permits
--   …, waiters before it, TIME in µs         'busy' or 'shared', and the token is queued
--   one string: ms left or -1, waiters before it, TIME in µs, counter, line feed, value
--                                            the same, in the usual case of a busy lock
--   'kind'                                   the name is in use as a lock instead of a semaphore,
--                                            or the reverse
--   'ended'                                  the token was released or broken before, or its hold
--                                            has no counter
--   'foreign'                                the lock's key isn't a string
--   'exhausted'                              the counter is damaged, or too few fences are left

local time = redis.call('TIME')
local micros, patience = time[1] * 1000000 + time[2], tonumber(ARGV[4])
local token = ARGV[1]:sub(5, 36)
-- MGET returns nil for a key that isn't a string, which its.look() or grant() detects.
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local value, counter = found[1], found[2]
if found[3] then
  return { 'ended' }
end

-- Sends a recall to a client that may keep the lock warm (value.lua).
local function recall(held)
  local client = held:match('\30(%x+)$')
  if client then
    redis.pcall('PUBLISH', 'lockwright:offered:' .. client, 'recall ' .. held:sub(5, 36))
  end
end

-- Queues the claim behind a hold with `left` ms left. The counter must have a mark. Returns the
-- number of earlier waiters, and the time in µs.
local function queue_claim(left, is_shared)
  local micros_text = time[1] .. ('00000' .. time[2]):sub(-6)
  local queue_left = redis.call('PTTL', KEYS[4])
  if queue_left == -2 and not is_shared then
    -- Without a queue or shared holders, all records in `meta` are obsolete.
    redis.call('DEL', KEYS[6])
  end
  -- The queue and `meta` expire after twice the patience, so few requests must extend them.
  local extends_queue = queue_left < patience
  local extends_meta = extends_queue and redis.call('PTTL', KEYS[6]) < 2 * patience
  -- The client retries when the hold expires, at the latest after the patience.
  local retries_in = (left < 0 or left > patience) and ARGV[4] or left
  local record = micros_text .. ' ' .. ARGV[4] .. ' ' .. retries_in .. ' ' .. ARGV[3] .. ' ' .. ARGV[2] .. ' ' .. ARGV[5]
    .. ' ' .. ARGV[1]
  local is_new = redis.call('HSET', KEYS[6], token, record) == 1
  if extends_meta then
    redis.pcall('PEXPIRE', KEYS[6], 2 * patience)
  end
  -- If the record was obsolete, LPOS finds no token, and RPUSH adds it.
  local before = not is_new and redis.call('LPOS', KEYS[4], token) or redis.call('RPUSH', KEYS[4], token) - 1
  if is_new and before > 0 and time[2] % 4 == 0 then
    -- A quarter of the new claims remove expired waiters from a random part of the queue.
    -- Otherwise, dead clients' waiters would fill a long-held lock's queue.
    local from, removed, removed_before = time[2] % before, 0, nil
    -- The claim is queued even if the removal fails.
    pcall(function()
      repeat
        removed_before = removed
        local tokens = redis.call('LRANGE', KEYS[4], from, from + 3)
        for i, found_record in ipairs(redis.call('HMGET', KEYS[6], unpack(tokens))) do
          -- A holder's record, which begins with the mode, doesn't match.
          local asked, waits = (found_record or '0 0'):match('^(%d+) (%d+)')
          if asked and asked + waits * 1000 <= micros then
            redis.call('LREM', KEYS[4], 1, tokens[i])
            removed = removed + 1
            redis.call('HDEL', KEYS[6], tokens[i])
          end
        end
        -- LREM takes longer in a long queue.
      until removed == removed_before or removed * before > 100000
    end)
    before = before - removed
  end
  if extends_queue then
    redis.pcall('PEXPIRE', KEYS[4], 2 * patience)
  end
  return before, micros_text
end

local mark = counter and counter:match('^%d+ (%d+)$')
if mark and mark - patience >= micros / 1000 and ARGV[3] == 'x' and value and value:find('lw1:', 1, true) == 1
  and value:find(token, 5, true) ~= 5 then
  recall(value)
  local left = redis.call('PTTL', KEYS[1])
  if patience == 0 then
    return { 'busy', left, value, counter }
  end
  local before, micros_text = queue_claim(left)
  return left .. ' ' .. before .. ' ' .. micros_text .. ' ' .. counter .. '\n' .. value
end
