-- Acquires a free lock without waiters. Creates no function, for speed.
--
-- KEYS  lock, fence
-- ARGV  the hold's value (value.lua) with one fence, TTL in ms, lower bound of the counter in ms
--       (fast_path.rs)
--
-- Returns the fence; 'busy' and the holder as acquire.lua; or -1 if only acquire.lua can decide.

-- If SET fails on a full server, acquire.lua can still find that this token holds the lock.
local taken = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if taken and taken.err then
  return -1
elseif taken then
  -- INCR fails if the counter has a mark.
  local counted, bound = redis.pcall('INCR', KEYS[2]), ARGV[3] * 1000
  local is_number = type(counted) == 'number'
  if is_number and counted >= bound and counted < bound + 86400000000 then
    return counted
  end
  -- Set a counter below the bound to the server's time. Of a counter far ahead of the clock, extend
  -- only the expiry. An unusable counter undoes the acquire below.
  if is_number and counted > 0 and counted < 9007199254740992 then
    local last, life, done = counted, nil, nil
    if counted < bound then
      local time = redis.pcall('TIME')
      if not time.err then
        local micros = time[1] * 1000000 + time[2]
        last = math.max(counted, micros)
        life = math.max(ARGV[2] + 0, math.ceil((last - micros) / 1000)) + 604800000
        done = redis.pcall('SET', KEYS[2], last, 'PX', life)
      end
    else
      life = math.max(ARGV[2] + 0, math.ceil((last - bound) / 1000)) + 604800000
      done = redis.pcall('PTTL', KEYS[2])
      if type(done) == 'number' and done < life then
        done = redis.pcall('PEXPIRE', KEYS[2], life)
      end
    end
    if type(done) == 'number' or done and done.ok then
      return last
    end
  end
  if counted == 1 then
    redis.pcall('DEL', KEYS[2])
  elseif is_number and counted < 9007199254740992 then
    redis.pcall('SET', KEYS[2], counted - 1, 'KEEPTTL')
  end
  local deleted = redis.pcall('DEL', KEYS[1])
  if type(deleted) ~= 'number' then
    -- The user may not run DEL. So the key expires, and the reply is the error of DEL.
    redis.call('SET', KEYS[1], 'refused', 'PX', 1)
    return deleted
  end
  return -1
end


-- MGET returns nil for a key of another type, which acquire.lua reports.
local found = redis.call('MGET', KEYS[1], KEYS[2])
local value = found[1]
if not value or not value:find('^lw1[:!]') or value:find(ARGV[1]:sub(5, 36), 5, true) == 5 then
  return -1
end
local client = value:match('\30(%x+)$')
if client then
  redis.pcall('PUBLISH', 'lockwright:offered:' .. client, 'recall ' .. value:sub(5, 36))
end
return { 'busy', redis.call('PTTL', KEYS[1]), value, found[2] }
