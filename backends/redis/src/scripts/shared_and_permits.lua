-- The holders of one lock, of all modes.
--
-- A shared holder or permit holder is a token in `holders`, with its expiry as score, and a record
-- in `meta`:
--   MODE FENCE SINCE IDENTITY
-- After a break, the field `broken:TOKEN` of `meta` has the operator and the reason. While a lock
-- has such holders, its key contains a marker (value.lua). If the marker is missing, the lock's key
-- was deleted, and these holders no longer hold.
--
-- MODE is as in waiters.lua. SINCE is in µs, other times in ms.

local function holders_of(lock, fence, holders, meta, micros)
  local call, its = redis.call, {}
  local now = math.floor(micros / 1000)
  -- The present time in ms, by the clock of the holders' expiry times (clock.lua).
  local at = now

  local function forget(tokens)
    for from = 1, #tokens, 1000 do
      local last = math.min(from + 999, #tokens)
      local records = { unpack(tokens, from, last) }
      for place = from, last do
        records[#records + 1] = 'broken:' .. tokens[place]
      end
      call('HDEL', meta, unpack(records))
      call('ZREM', holders, unpack(tokens, from, last))
    end
  end

  local function count(fences, ttl)
    local last, marked_until = parse_counter(call('GET', fence))
    local first = next_fence(last, micros, fences)
    if first then
      count_fences(fence, first + fences - 1, marked_until, now, ttl)
      return text(first)
    end
  end

  -- The number of held permits. Nil until its.fits() counts them.
  local taken

  function its.fits(mode)
    if not its.value then
      return true
    elseif mode == 's' then
      return its.kind_of_marker == 'shared'
    end
    local wanted, of = mode:match('^(%d+)/(%d+)$')
    if not wanted or its.kind_of_marker ~= 'permits' then
      return false
    end
    if not taken then
      taken = 0
      local tokens = call('ZRANGE', holders, 0, -1)
      for from = 1, #tokens, 1000 do
        for _, held in ipairs(call('HMGET', meta, unpack(tokens, from, math.min(from + 999, #tokens)))) do
          -- Without a record, the holder's count is unknown, so no further claim fits.
          taken = taken + ((held or ''):match('^(%d+)/') or math.huge)
        end
      end
    end
    return taken + wanted <= tonumber(of)
  end

  -- Returns the readers' common fence, or the first new one.
  function its.fence_for(mode, fences, ttl)
    if mode == 's' and its.kind_of_marker == 'shared' then
      extend_expiry(fence, ttl + IDLE_FENCE)
      return its.number
    end
    return count(fences, ttl)
  end

  -- The granting write is last: if an earlier command fails, nothing is held.
  function its.write(token, mode, life, value, first)
    if mode == 'x' then
      its.value = value
      call('SET', lock, value, 'PX', text(life))
      return
    end
    call('HSET', meta, token, table.concat({ mode, first, text(micros), value:match('^lw1:%x+:%d+:(.*)$') }, ' '))
    extend_expiry(meta, life + 2)
    if its.value then
      extend_expiry(lock, life + 2)
    end
    expire_in(holders, token, life, at, now)
    taken = taken and taken + (mode:match('^(%d+)/') or 0)
    if not its.value then
      its.kind_of_marker = mode == 's' and 'shared' or 'permits'
      its.number = mode == 's' and first or mode:match('/(%d+)$')
      its.value = 'lockwright:' .. its.kind_of_marker .. ':' .. its.number
      call('SET', lock, its.value, 'PX', text(life + 2))
    end
  end

  -- Reads the lock, and removes holders that have expired or lack the marker. Returns false if the
  -- lock's key isn't a string. `value` is the key's value: false if free, nil if unknown.
  function its.look(value)
    if value == nil then
      value = get_string(lock)
    end
    if type(value) == 'table' then
      return false
    end
    its.value, its.kind_of_marker, its.number = value, nil, nil
    if value then
      its.kind_of_marker, its.number = value:match('^lockwright:(%a+):(%d+)$')
    end
    if its.kind_of_marker then
      at = time_of(holders, now)
      forget(call('ZRANGEBYSCORE', holders, '-inf', text(at)))
      if call('EXISTS', holders) == 0 then
        call('DEL', lock)
        its.value, its.kind_of_marker, its.number, at = false, nil, nil, now
      end
    elseif not value and call('EXISTS', holders) == 1 then
      forget(call('ZRANGE', holders, 0, -1))
    end
    return true
  end

  -- Returns a shared or permit holder's mode, fence, ms left and identity, and the note of a break.
  function its.holder(token)
    local expires = its.kind_of_marker and call('ZSCORE', holders, token)
    if expires then
      local record = call('HGET', meta, token) or ''
      local mode, first, identity = record:match('^(%S+) (%d+) %d+ (.*)$')
      if not mode then
        mode = its.kind_of_marker == 'shared' and 's' or '1/' .. its.number
        first = text(parse_counter(call('GET', fence)) or 0)
      end
      return mode, first, expires - at, identity or false, call('HGET', meta, 'broken:' .. token)
    end
  end

  -- As again() in exclusive.lua.
  function its.again(token, ttl)
    local mode, first, left, _, by = its.holder(token)
    if not mode then
      return nil
    elseif by then
      return { 'again', first, '1', left }
    end
    -- PEXPIRE is the first write (see release.lua).
    call('PEXPIRE', lock, text(math.max(call('PTTL', lock), ttl + 2)))
    extend_expiry(fence, ttl + IDLE_FENCE)
    extend_expiry(meta, ttl + 2)
    expire_in(holders, token, ttl, at, now)
    return { 'again', first, '1' }
  end

  -- Ends a shared hold or permit. Errors after the removal are ignored. Returns false without a
  -- hold.
  function its.leave(token)
    if not its.kind_of_marker or not call('ZSCORE', holders, token) then
      return false
    end
    forget({ token })
    pcall(function()
      local left = live_as_long(holders, at, now)
      if left then
        -- The lock's key expires with the last hold, because other libraries wait for that.
        call('PEXPIRE', lock, text(left))
      else
        call('DEL', lock)
        its.value, its.kind_of_marker, its.number, at = false, nil, nil, now
      end
    end)
    return true
  end

  -- Transfers a shared hold or permit. Returns the fence, or nil without one. If the hold of `from`
  -- can't be removed, it expires.
  function its.rename(from, to, mode, ttl, value)
    local first = its.fence_for(mode, 1, ttl)
    if first then
      its.write(to, mode, ttl, value, first)
      pcall(function()
        forget({ from })
        live_as_long(holders, at, now)
      end)
    end
    return first
  end

  function its.revoke(token, mode)
    if mode == 'x' then
      call('DEL', lock)
      its.value = false
    else
      its.leave(token)
      taken = taken and taken - (mode:match('^(%d+)/') or 0)
    end
  end

  -- Returns the reply 'busy' or 'shared' of acquire.lua, with the time left of the longest hold.
  function its.describe(counter)
    if not its.kind_of_marker then
      local left, is_hold = its.value and call('PTTL', lock) or 0, its.value and its.value:find('^lw1[:!]')
      return { 'busy', left, is_hold and its.value or false, counter }
    end
    local token = call('ZRANGE', holders, 0, 0)[1]
    local mode, first, left, identity, by = its.holder(token)
    if its.kind_of_marker == 'shared' then
      left = call('PTTL', lock)
    end
    return { 'shared', left, token, identity, first, by, mode }
  end

  return its
end
