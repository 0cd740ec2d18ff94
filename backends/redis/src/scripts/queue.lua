-- The queue and the holders of one lock.
--
-- A shared holder or permit holder is a token in `holders`, with its expiry as score, and a record
-- in `meta`:
--   MODE FENCE SINCE IDENTITY
-- After a break, the field `broken:TOKEN` has the operator and the reason. While a lock has shared
-- or permit holders, its key contains a marker with the readers' fence, or with the semaphore's
-- size. If the marker is missing, the lock's key was deleted, and these holders no longer hold.
--
-- MODE is as in waiters.lua. SINCE is in µs, other times in ms.

local function queue_of(lock, fence, queue, holders, meta, micros, counted)
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

  -- Reserves fences. Returns the first, or nil if next_fence() returns nil.
  local function count(fences, ttl)
    local last, marked_until = parse_counter(call('GET', fence))
    local first = next_fence(last, micros, fences)
    if first then
      count_fences(fence, first + fences - 1, marked_until, now, ttl)
      return text(first)
    end
  end

  -- The number of held permits. Nil until fits() counts them, once per script.
  local taken

  local function fits(mode)
    if not its.value then
      return true
    elseif mode == 'x' or not its.kind_of_marker then
      return false
    elseif mode == 's' then
      return its.kind_of_marker == 'shared'
    end
    local wanted, of = mode:match('^(%d+)/(%d+)$')
    if its.kind_of_marker ~= 'permits' or of ~= its.number then
      return false
    end
    if not taken then
      taken = 0
      local tokens = call('ZRANGE', holders, 0, -1)
      for from = 1, #tokens, 1000 do
        for _, held in ipairs(call('HMGET', meta, unpack(tokens, from, math.min(from + 999, #tokens)))) do
          -- Without a record, assume that the holder has all permits.
          taken = taken + ((held or ''):match('^(%d+)/') or of)
        end
      end
    end
    return taken + wanted <= tonumber(of)
  end

  -- Concurrent readers have the same fence.
  local function fence_for(mode, fences, ttl)
    if mode == 's' and its.kind_of_marker == 'shared' then
      extend_expiry(fence, ttl + IDLE_FENCE)
      return its.number
    end
    return count(fences, ttl)
  end

  -- The write that grants the hold is last: if an earlier command fails, nothing is held.
  local function write(token, mode, life, value, first)
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
    expire_in(holders, token, life, at)
    taken = taken and taken + (mode:match('^(%d+)/') or 0)
    if not its.value then
      its.kind_of_marker = mode == 's' and 'shared' or 'permits'
      its.number = mode == 's' and first or mode:match('/(%d+)$')
      its.value = 'lockwright:' .. its.kind_of_marker .. ':' .. its.number
      call('SET', lock, its.value, 'PX', text(life + 2))
    end
  end

  -- Reads the lock, and removes holders that have expired or lack the marker. Returns false if the
  -- lock's key isn't a string. `value` is its value, false if free, or nil to read it.
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

  -- Returns a shared or permit holder's mode, fence, ms left and identity, and the operator and
  -- reason of a break.
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

  -- Extends the token's hold, unless broken. Returns the reply, or nil without a hold.
  function its.again(token, ttl)
    local mode, first, left, _, by = its.holder(token)
    if not mode then
      return nil
    elseif by then
      return { 'again', first, '1', left }
    end
    -- PEXPIRE is first, for a full server (see release.lua).
    call('PEXPIRE', lock, text(math.max(call('PTTL', lock), ttl + 2)))
    extend_expiry(fence, ttl + IDLE_FENCE)
    extend_expiry(meta, ttl + 2)
    expire_in(holders, token, ttl, at)
    return { 'again', first, '1' }
  end

  -- Ends a shared hold or permit, even if a later command fails. Returns false without a hold.
  function its.leave(token)
    if not its.kind_of_marker or not call('ZSCORE', holders, token) then
      return false
    end
    forget({ token })
    pcall(function()
      local left = live_as_long(holders, at)
      if left then
        -- The lock's key lasts as long as the last holder, so that other libraries wait no longer.
        call('PEXPIRE', lock, text(left))
      else
        call('DEL', lock)
        its.value, its.kind_of_marker, its.number, at = false, nil, nil, now
      end
    end)
    return true
  end

  -- Transfers a shared hold or permit. Returns the fence, or nil if count() returns nil. If the
  -- hold of `from` can't be removed, it expires.
  function its.rename(from, to, mode, ttl, value)
    local first = its.kind_of_marker == 'shared' and its.number or count(1, ttl)
    if first then
      write(to, mode, ttl, value, first)
      pcall(function()
        forget({ from })
        live_as_long(holders, at)
      end)
    end
    return first
  end

  -- Removes a waiter. Returns false if it isn't queued. A record that remains is harmless.
  function its.withdraw(token)
    if call('LREM', queue, 1, token) == 0 then
      return false
    end
    redis.pcall('HDEL', meta, token)
    return true
  end

  local function revoke_offer(token, mode)
    if mode == 'x' then
      call('DEL', lock)
      its.value = false
    else
      its.leave(token)
      taken = taken and taken - (mode:match('^(%d+)/') or 0)
    end
  end

  -- Returns how other clients use the name: 'lock', the size of a semaphore, or nil. Removes
  -- expired waiters.
  function its.kind(token)
    if its.value then
      return its.kind_of_marker == 'permits' and its.number or 'lock'
    end
    for _ = 1, 16 do
      local first = call('LRANGE', queue, 0, 0)[1]
      if not first or first == token then
        return nil
      end
      local mode, live = parse_waiter(call('HGET', meta, first))
      if mode and live > now then
        return mode:match('/(%d+)$') or 'lock'
      end
      its.withdraw(first)
    end
  end

  -- Returns whether a waiter that doesn't fit is a disconnected client's. It can block claims that
  -- fit only behind shared holders or permits. The check needs PUBLISH to count all receivers.
  -- Clients ignore the empty message.
  local function blocks_as_gone_client(client)
    return counted and its.kind_of_marker
      and redis.pcall('PUBLISH', 'lockwright:offered:' .. client, '') == 0
  end

  -- Offers the lock to the waiters before the caller's `token`. Returns the longest offer's
  -- lifetime, or 0.
  local function offer(token)
    local offers, gone, expired, longest = 0, 0, 0, 0
    while offers < 64 and gone < 16 and expired < 256 do
      local first = call('LRANGE', queue, 0, 0)[1]
      if not first or first == token then
        return longest
      end
      local record = call('HGET', meta, first)
      local mode, live, ttl, client, value = parse_waiter(record)
      if not mode or live <= now then
        its.withdraw(first)
        expired = expired + 1
      elseif not fits(mode) then
        if not blocks_as_gone_client(client) then
          return longest
        end
        its.withdraw(first)
        gone = gone + 1
      else
        local life, fences = math.min(ttl, LONGEST_OFFER), fences_of(value)
        local fenced = fence_for(mode, fences, life)
        if not fenced then
          return longest
        end
        its.withdraw(first)
        write(first, mode, life, value, fenced)
        local receivers = redis.pcall('PUBLISH', 'lockwright:offered:' .. client,
          table.concat({ first, fenced, fences, text(micros), life }, ' '))
        if type(receivers) ~= 'number' then
          -- The user may not publish, so the lock stays free until the next waiter retries.
          revoke_offer(first, mode)
          queue_again(queue, meta, first, record)
          return longest
        end
        if receivers == 0 and counted then
          revoke_offer(first, mode)
          gone = gone + 1
        else
          offers, longest = offers + 1, math.max(longest, life)
          if mode == 'x' then
            return longest
          end
        end
      end
    end
    its.is_unfinished = true
    return longest
  end

  function its.grant_next(token)
    local longest = offer(token)
    local behind = longest > 0 and call('LRANGE', queue, 0, 1) or {}
    if behind[1] then
      local records = call('HMGET', meta, unpack(behind))
      for i = 1, #behind do
        records[i] = behind[i] ~= token and records[i]
      end
      publish_lifetime(behind, records, 1, micros, longest)
    end
    return longest
  end

  -- Returns the first fence, false if too few fences are left, or nil if the token must wait.
  function its.grant(token, mode, ttl, value)
    if not fits(mode) then
      return nil
    end
    local first = call('LRANGE', queue, 0, 0)[1]
    if first and first ~= token then
      return nil
    end
    local fenced = fence_for(mode, fences_of(value), ttl)
    if not fenced then
      return false
    end
    its.withdraw(token)
    write(token, mode, ttl, value, fenced)
    return fenced
  end

  -- Returns the reply 'busy' or 'shared' of acquire.lua. The readers' time left is the last
  -- reader's.
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
