-- The value of a lock's key, and helpers for keys.
--
--   lw1:TOKEN:FENCES:IDENTITY          an exclusive hold with FENCES reserved fences. It is the latest grant, so the
--                                      last of them is the counter
--   lw1!TOKEN:FENCE:FENCES:IDENTITY    the same, broken: it runs out. A break raises the counter, so FENCE is the first
--                                      fence. A line feed, the operator and the reason follow
--   lockwright:shared:FENCE            readers, with the fence that they share
--   lockwright:permits:SIZE            permits of a semaphore of that size
--
-- Any other value is another program's lock.

-- Returns the string, false if the key is missing, or a table if it is of another type. A repeated GET raises any other
-- error.
local function get_string(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    redis.call('GET', key)
  end
  return value
end

-- A fence counter's key expires a week after its last hold: by then the clock is ahead of the counter.
local IDLE_FENCE = 604800000

-- Returns 'held' or 'broken' if it is an exclusive hold of the token, else nil.
local function hold_state(value, token)
  if type(value) ~= 'string' then
    return nil
  elseif value:find('lw1:' .. token .. ':', 1, true) == 1 then
    return 'held'
  elseif value:find('lw1!' .. token .. ':', 1, true) == 1 then
    return 'broken'
  end
end

local function text(number)
  return string.format('%.0f', number)
end

-- Returns the token, first fence (nil without a counter), fences and identity of an exclusive hold; for a broken one also
-- the operator and the reason as one text. Nil for any other value.
local function parse_hold(value, counter)
  if type(value) ~= 'string' then
    return nil
  end
  local token, fences, identity = value:match('^lw1:(%x+):(%d+):(.*)$')
  if token then
    local last = type(counter) == 'string' and tonumber(counter:match('^%d+'))
    return token, last and text(last + 1 - fences) or nil, fences, identity
  end
  local broken, first, count, rest = value:match('^lw1!(%x+):(%d+):(%d+):(.*)$')
  if broken then
    local known, note = rest:match('^([^\n]*)\n(.*)$')
    return broken, first, count, known or rest, note or ''
  end
end

-- Extends the key's expiry to at least `life` ms.
local function extend_expiry(key, life)
  if redis.call('PTTL', key) < life then
    redis.call('PEXPIRE', key, text(life))
  end
end
