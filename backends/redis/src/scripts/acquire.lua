-- Acquires a lock: grants it, repeats an earlier grant, or reports the holder and queues the claim. acquire_full.lua
-- continues this script. If an exclusive claim waits for an exclusive holder, as others do, it is decided here without
-- creating further functions, for speed.
--
-- KEYS  lock, fence, tombstone of this token, queue, holders, meta
-- ARGV  the hold's value (value.lua), TTL in ms, mode, how many ms it stays queued without a request ('0': doesn't wait),
--       client's channel, '1' if PUBLISH counts all receivers, wake-up channel, name
--
-- Returns
--   'granted', first fence, fences           held for the full TTL
--   'again', first fence, fences             held before, or offered; extended to the full TTL
--   'again', first fence, fences, ms left    a broken hold: not extended
--   'busy', ms left or -1, value, counter    held exclusively. Without a value: by another program, or free, but others
--                                            wait
--   'shared', ms left, token, identity, fence, broken, mode     held by readers or permits
--   …, waiters before it, TIME in µs         as 'busy' or 'shared', and the token is queued
--   one string: ms left or -1, waiters before it, TIME in µs, counter, line feed, value     the same for 'busy'
--   'kind', 'lock' or a number               the name is in use as a lock, or a semaphore of that size
--   'ended'                                  the token was released or broken before
--   'foreign'                                the lock's key isn't a string
--   'exhausted'                              no fences are left

local time = redis.call('TIME')
local micros, patience = time[1] * 1000000 + time[2], tonumber(ARGV[4])
local token = ARGV[1]:sub(5, 36)
-- MGET returns nil for a key of another type, which its.look() or grant() detects.
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local value, counter = found[1], found[2]
if found[3] then
  return { 'ended' }
end

-- Queues the claim, whose counter is marked, behind a hold with `left` ms. Returns the number of waiters before it, and
-- the time in µs.
local function queue_claim(left, is_shared)
  local micros_text = time[1] .. ('00000' .. time[2]):sub(-6)
  local queue_left = redis.call('PTTL', KEYS[4])
  if queue_left == -2 and not is_shared then
    -- There is no queue. The only records are of dead holders, whose key has expired.
    redis.call('DEL', KEYS[6])
  end
  -- Both keys get twice the time, so that not every request writes an expiry.
  local extends_queue = queue_left < patience
  local extends_meta = extends_queue and redis.call('PTTL', KEYS[6]) < 2 * patience
  -- See hand_over.lua. The client retries when the hold is due to expire.
  local is_new = redis.call('HSET', KEYS[6], token, micros_text .. ' ' .. ARGV[4] .. ' '
    .. (left < 0 and ARGV[4] or left) .. ' ' .. ARGV[3] .. ' ' .. ARGV[2] .. ' ' .. ARGV[5] .. ' ' .. ARGV[1]) == 1
  -- A record may be left without a place.
  local before = not is_new and redis.call('LPOS', KEYS[4], token) or redis.call('RPUSH', KEYS[4], token) - 1
  -- The claim is queued even if a later command fails.
  if extends_meta then
    redis.pcall('PEXPIRE', KEYS[6], 2 * patience)
  end
  if extends_queue then
    redis.pcall('PEXPIRE', KEYS[4], 2 * patience)
  end
  return before, micros_text
end

local mark = counter and counter:match('^%d+ (%d+)$')
if mark and mark - patience >= micros / 1000 and ARGV[3] == 'x' and value and value:find('lw1:', 1, true) == 1
  and value:find(token, 5, true) ~= 5 then
  local left = redis.call('PTTL', KEYS[1])
  if patience == 0 then
    return { 'busy', left, value, counter }
  end
  local before, micros_text = queue_claim(left)
  -- One string, for speed.
  return left .. ' ' .. before .. ' ' .. micros_text .. ' ' .. counter .. '\n' .. value
end
