local function kind_of(mode)
  return mode:find('/', 1, true) and 'semaphore' or 'lock'
end

local function queue_of(lock, fence, queue, holders, meta, micros, counted)
  local call, its = redis.call, holders_of(lock, fence, holders, meta, micros)
  local now = math.floor(micros / 1000)

  -- Removes a waiter. Returns false if it isn't queued. A remaining record is harmless.
  function its.withdraw(token)
    if call('LREM', queue, 1, token) == 0 then
      return false
    end
    redis.pcall('HDEL', meta, token)
    return true
  end

  -- Returns how other clients use the name: 'lock', 'semaphore' or nil. Removes expired waiters.
  function its.kind(token)
    if its.value then
      return its.kind_of_marker == 'permits' and 'semaphore' or 'lock'
    end
    for _ = 1, 16 do
      local first = call('LRANGE', queue, 0, 0)[1]
      if not first or first == token then
        return nil
      end
      local mode, live = parse_waiter(call('HGET', meta, first))
      if mode and live > now then
        return kind_of(mode)
      end
      its.withdraw(first)
    end
  end

  -- Returns whether a waiter that can't be granted blocks others although its client is gone. Under
  -- an exclusive hold, it blocks none. The check needs PUBLISH to count all receivers. Clients
  -- ignore the empty message.
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
      elseif not its.fits(mode) then
        if not blocks_as_gone_client(client) then
          return longest
        end
        its.withdraw(first)
        gone = gone + 1
      else
        local life, fences = math.min(ttl, LONGEST_OFFER), fences_of(value)
        local fenced = its.fence_for(mode, fences, life)
        if not fenced then
          return longest
        end
        its.withdraw(first)
        its.write(first, mode, life, value, fenced)
        local receivers = redis.pcall('PUBLISH', 'lockwright:offered:' .. client,
          table.concat({ first, fenced, fences, text(micros), life }, ' '))
        if type(receivers) ~= 'number' then
          -- The user may not publish, so the lock stays free until the next waiter retries.
          its.revoke(first, mode)
          queue_again(queue, meta, first, record)
          return longest
        end
        if receivers == 0 and counted then
          its.revoke(first, mode)
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
    if not its.fits(mode) then
      return nil
    end
    local first = call('LRANGE', queue, 0, 0)[1]
    if first and first ~= token then
      return nil
    end
    local fenced = its.fence_for(mode, fences_of(value), ttl)
    if not fenced then
      return false
    end
    its.withdraw(token)
    its.write(token, mode, ttl, value, fenced)
    return fenced
  end

  return its
end
