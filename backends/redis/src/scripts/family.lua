-- Those of one name: who waits for it, and who holds it beside others. Stands at the head of the
-- scripts that need it, after alone.lua and clock.lua; they make it only once they do.
--
-- A waiter is a token in the queue, by its arrival, and what it wants, in `about`:
--   MODE LIVE-UNTIL TTL FENCES CHANNEL IDENTITY
-- A reader, or a holder of permits, is a token in `holders`, by its expiry, and in `about`:
--   MODE FENCE SINCE IDENTITY
-- and, once it was broken, who did it and why in the field `broken:TOKEN`. While there is one of
-- them the lock holds a marker, which names what they share: the epoch of readers, or how many
-- permits there are. Without the marker they don't hold: somebody deleted their lock.
--
-- A mode is 'x' (exclusive), 's' (shared) or COUNT/OF (permits). Times are in ms.

local function family(lock, fence, hold, queue, holders, about, micros, counted)
  local call, its = redis.call, {}
  local now = math.floor(micros / 1000)
  -- By which holders expire.
  local at = now

  local function keep(key, life)
    if call('PTTL', key) < life then
      call('PEXPIRE', key, text(life))
    end
  end

  -- What a marker says: 'shared' and the epoch, or 'permits' and how many there are.
  local function marked(value)
    if value then
      return value:match('^lockwright:(%a+):(%d+)$')
    end
  end

  local function forget(token)
    call('ZREM', holders, token)
    call('HDEL', about, token, 'broken:' .. token)
  end

  -- The next fence, and counts so many from it on; nil if none are left.
  local function count(fences, ttl)
    local first = next_fence(call('GET', fence), micros, fences)
    if first then
      count_fences(fence, first, fences, ttl)
      return text(first)
    end
  end

  local function waiter(token)
    local record = call('HGET', about, token)
    if record then
      return record:match('^(%S+) (%d+) (%d+) (%d+) (%S+) (.*)$')
    end
  end

  -- Whether a claim of this mode can hold beside those who do.
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
    local taken = tonumber(wanted)
    for _, token in ipairs(call('ZRANGE', holders, 0, -1)) do
      local held = call('HGET', about, token) or ''
      taken = taken + (tonumber(held:match('^(%d+)/')) or 0)
    end
    return taken <= tonumber(of)
  end

  -- The fence for one more holder: readers beside each other share theirs.
  local function fence_for(mode, fences, ttl)
    if mode == 's' and its.kind_of_marker == 'shared' then
      keep(fence, ttl + IDLE_FENCE)
      return its.number
    end
    return count(fences, ttl)
  end

  -- The lock comes last: whatever may fail before it, no permission say, leaves nothing held.
  local function write(token, mode, life, fences, identity, first)
    if mode == 'x' then
      hold_alone(lock, hold, token, identity, first, fences, micros, life)
      its.value = token
      return
    end
    expire_in(holders, token, life, at)
    live_as_long(holders, at)
    call('HSET', about, token, table.concat({ mode, first, text(micros), identity }, ' '))
    keep(about, life + 2)
    if its.value then
      keep(lock, life + 2)
    else
      its.kind_of_marker = mode == 's' and 'shared' or 'permits'
      its.number = mode == 's' and first or mode:match('/(%d+)$')
      its.value = 'lockwright:' .. its.kind_of_marker .. ':' .. its.number
      call('SET', lock, its.value, 'PX', text(life + 2))
    end
  end

  -- Looks at the lock, and drops holders whose time is up. False if the key isn't a string.
  function its.look()
    local value = redis.pcall('GET', lock)
    if type(value) == 'table' then
      return false
    end
    its.value = value
    its.kind_of_marker, its.number = marked(value)
    if its.kind_of_marker then
      at = time_of(holders, now)
      for _, token in ipairs(call('ZRANGEBYSCORE', holders, '-inf', text(at))) do
        forget(token)
      end
      if call('EXISTS', holders) == 0 then
        call('DEL', lock)
        its.value, its.kind_of_marker, its.number, at = false, nil, nil, now
      end
    elseif call('EXISTS', holders) == 1 then
      for _, token in ipairs(call('ZRANGE', holders, 0, -1)) do
        forget(token)
      end
    end
    return true
  end

  -- What a reader or a holder of permits has: mode, fence, ms left, identity, who broke it and why.
  function its.holder(token)
    local expires = its.kind_of_marker and call('ZSCORE', holders, token)
    local record = expires and call('HGET', about, token)
    if record then
      local mode, first, identity = record:match('^(%S+) (%d+) %d+ (.*)$')
      return mode, first, expires - at, identity, call('HGET', about, 'broken:' .. token)
    end
  end

  -- Arms it again.
  function its.extend(token, ttl)
    -- A full server refuses a script whose first write could take memory. This one can't.
    call('PEXPIRE', lock, text(math.max(call('PTTL', lock), ttl + 2)))
    expire_in(holders, token, ttl, at)
    live_as_long(holders, at)
    keep(fence, ttl + IDLE_FENCE)
    keep(about, ttl + 2)
  end

  -- Ends it. True if there was one.
  function its.leave(token)
    if not its.kind_of_marker or call('ZREM', holders, token) == 0 then
      return false
    end
    forget(token)
    local left = live_as_long(holders, at)
    if left then
      -- A stranger needn't wait for the time of who has gone.
      call('PEXPIRE', lock, text(left))
    else
      call('DEL', lock)
      its.value, its.kind_of_marker, its.number, at = false, nil, nil, now
    end
    return true
  end

  -- Puts another token into its place, with the same time to go.
  function its.rename(from, to, mode, ttl, identity)
    local first = its.kind_of_marker == 'shared' and its.number or count(1, ttl)
    if first then
      forget(from)
      write(to, mode, ttl, 1, identity, first)
    end
    return first
  end

  -- Takes a token out of the queue. True if it was there.
  function its.withdraw(token)
    if call('ZREM', queue, token) == 0 then
      return false
    end
    call('HDEL', about, token)
    return true
  end

  -- What the name is in use as for a token: 'lock', the size of a semaphore, or nil. Who waits and has
  -- gone uses it no more.
  function its.kind(token)
    if its.value then
      return its.kind_of_marker == 'permits' and its.number or 'lock'
    end
    for _ = 1, 16 do
      local first = call('ZRANGE', queue, 0, 0)[1]
      if not first or first == token then
        return nil
      end
      local mode, live = waiter(first)
      if mode and tonumber(live) > now then
        return mode:match('/(%d+)$') or 'lock'
      end
      its.withdraw(first)
    end
  end

  -- Whether the client of a waiter has gone that waits for those who hold beside each other, and so keeps out
  -- all who could hold beside them: nobody hears an empty message, which says nothing to whoever does.
  local function keeps_others_out_in_vain(channel)
    return counted and its.kind_of_marker
      and redis.pcall('PUBLISH', 'lockwright:offered:' .. channel, '') == 0
  end

  -- Offers the lock to those at the head of the queue that it can be given to, and drops those that
  -- have gone. An offer is a hold with a short life, until who got it confirms it: whoever is
  -- stopped is passed over soon. Ends at `token`, which is here to be granted. Answers how long the
  -- longest of the offers lives; 0 if there are none.
  function its.advance(token)
    local offers, gone, longest = 0, 0, 0
    while offers < 64 and gone < 16 do
      local first = call('ZRANGE', queue, 0, 0)[1]
      if not first or first == token then
        return longest
      end
      local mode, live, ttl, fences, channel, identity = waiter(first)
      if not mode or tonumber(live) <= now then
        its.withdraw(first)
      elseif not fits(mode) then
        if not keeps_others_out_in_vain(channel) then
          return longest
        end
        its.withdraw(first)
        gone = gone + 1
      else
        local life = math.min(tonumber(ttl), 2000)
        local fenced = fence_for(mode, tonumber(fences), life)
        if not fenced then
          return longest
        end
        -- It may be told before it holds, as nobody hears of it before the script has ended.
        local told = redis.pcall('PUBLISH', 'lockwright:offered:' .. channel, table.concat(
          { first, fenced, fences, text(micros), text(life) }, ' '))
        if type(told) == 'table' then
          -- Nobody may be told anything: so it stays free until whoever is next asks.
          return longest
        end
        its.withdraw(first)
        if told == 0 and counted then
          gone = gone + 1
        else
          write(first, mode, life, fences, identity, fenced)
          offers, longest = offers + 1, math.max(longest, life)
        end
      end
    end
    its.is_unfinished = true
    return longest
  end

  -- Grants, unless others are before it. Readers that wait are overtaken by readers only. Answers the
  -- first fence; false if no fences are left; nil if it has to wait.
  function its.grant(token, mode, ttl, fences, identity)
    if not fits(mode) then
      return nil
    end
    local first = call('ZRANGE', queue, 0, 0)[1]
    if first and first ~= token then
      return nil
    end
    local fenced = fence_for(mode, fences, ttl)
    if not fenced then
      return false
    end
    its.withdraw(token)
    write(token, mode, ttl, fences, identity, fenced)
    return fenced
  end

  -- Lets it wait, or go on waiting. Answers how many are before it.
  function its.wait(token, mode, patience, ttl, fences, channel, identity)
    if not call('ZSCORE', queue, token) then
      local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
      call('ZADD', queue, text(math.max((tonumber(last) or 0) + 1, micros)), token)
      if not last and not its.kind_of_marker then
        -- Nobody else waits, and nobody holds beside others: so what is there is of readers that died, the last
        -- of which took the list of them along.
        call('DEL', about)
      end
    end
    call('HSET', about, token, table.concat(
      { mode, text(now + patience), ttl, fences, channel, identity }, ' '))
    keep(queue, patience)
    keep(about, patience)
    return call('ZRANK', queue, token)
  end

  -- Who holds: ms until somebody else may at the latest, or -1; token, identity, fence, who broke it
  -- and why, mode. The token is nil for a foreign one.
  function its.describe()
    if its.kind_of_marker then
      local token = call('ZRANGE', holders, 0, 0)[1]
      local mode, first, left, identity, by = its.holder(token)
      if its.kind_of_marker == 'shared' then
        left = call('PTTL', lock)
      end
      return { left, token, identity, first, by, mode }
    end
    local about_it = call('HMGET', hold, 'token', 'identity', 'fence', 'broken')
    local token = about_it[1]
    if its.value and token and (its.value == token or its.value == token .. ':broken') then
      return { call('PTTL', lock), token, about_it[2], about_it[3], about_it[4], 'x' }
    end
    return { its.value and call('PTTL', lock) or 0, false, false, false, false, 'x' }
  end

  return its
end
