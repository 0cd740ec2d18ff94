-- Acquires a lock: grants it, repeats an earlier grant, or reports the holder and queues the claim.
--
-- KEYS  lock, fence, tombstone of this token, queue, holders, meta
-- ARGV  token, TTL in ms, fences ('1' if shared or permits), identity, how many ms it stays queued without a request
--       ('0': doesn't wait), mode, client's channel, '1' if receivers can be counted, wake-up channel, name
--
-- Returns
--   'granted', first fence, fences           held for the full TTL
--   'again', first fence, fences             the same, for a holder or after an offer
--   'again', first fence, fences, ms left    a broken hold: not extended
--   'busy', ms left or -1, token, identity, fence, broken, mode    no token: a foreign holder
--   …, waiters before it, TIME in µs         the same, and queued
--   'kind', 'lock' or a number               in use as a lock, or a semaphore of that size
--   'ended'                                  released or broken before
--   'foreign'                                not a string
--   'exhausted'                              no fences are left

-- The fence must not be later than the script's start.
local time = redis.call('TIME')
local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])

local token, ttl, fences, mode = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[6]
-- MGET returns nil for a key of another type, which its.look() or grant() detects.
local value, counter, ended = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3]))
if ended then
  return { 'ended' }
end

local answer = again(KEYS[1], token, value, ttl)
if answer then
  return answer
end

if mode == 'x' and not value and redis.call('EXISTS', KEYS[4]) == 0 then
  return grant(KEYS[1], KEYS[2], counter, micros / 1000, micros, token, ttl, fences, ARGV[4])
end

local its = queue_of(KEYS[1], KEYS[2], KEYS[4], KEYS[5], KEYS[6], micros, ARGV[8] == '1')
if not its.look() then
  return { 'foreign' }
end
local held, first, left, _, by = its.holder(token)
if held and by then
  return { 'again', first, '1', left }
elseif held then
  its.extend(token, ttl)
  return { 'again', first, '1' }
end
local kind = its.kind(token)
if kind and kind ~= (mode:match('/(%d+)$') or 'lock') then
  return { 'kind', kind }
end

its.grant_next(token)
first = its.grant(token, mode, ttl, fences, ARGV[4])
if first then
  -- A failure doesn't affect the grant.
  pcall(its.grant_next)
end
if its.is_unfinished then
  redis.pcall('PUBLISH', ARGV[9], ARGV[10])
end
if first then
  return { 'granted', first, ARGV[3] }
elseif first == false then
  return { 'exhausted' }
end

answer = its.describe()
table.insert(answer, 1, 'busy')
if ARGV[5] ~= '0' then
  answer[8] = its.wait(token, mode, tonumber(ARGV[5]), ARGV[2], ARGV[3], ARGV[7], ARGV[4])
  answer[9] = text(micros)
end
return answer
