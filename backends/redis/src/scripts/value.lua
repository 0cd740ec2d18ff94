-- The value of a lock's key, and helpers for keys.
--
--   lw1:TOKEN:FENCES:IDENTITY          an exclusive hold with FENCES reserved fences, of which the
--                                      fence counter is the last
--   …:IDENTITY, RS (0x1E), CLIENT      the same, and CLIENT (offers.rs) may keep the lock warm
--   lw1:TOKEN:FENCES@FENCE:IDENTITY    the same, but FENCE is the first, and the counter may differ
--   lw1!…                              either, but broken: it can't be renewed. A line feed, the
--                                      operator and the reason follow
--   lockwright:shared:FENCE            readers, and their common fence
--   lockwright:permits:SIZE            permits; the size is that of the first holder
--
-- Any other value is another library's lock.

-- Returns the key's string, false if the key is missing, or an error table if it isn't a string. A
-- second GET raises any other error.
local function get_string(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'table' and not value.err:find('WRONGTYPE', 1, true) then
    redis.call('GET', key)
  end
  return value
end

-- How long in ms a fence counter is kept once its last hold has ended and the clock has reached its
-- value.
local IDLE_FENCE = 604800000

local function hold_state(value, token)
  if type(value) == 'string' and value:find(token, 5, true) == 5 then
    return value:find('lw1:', 1, true) == 1 and 'held' or value:find('lw1!', 1, true) == 1 and 'broken' or nil
  end
end

local function text(number)
  return string.format('%.0f', number)
end

-- Returns an exclusive hold's token, first fence (nil without a counter), number of fences and
-- identity, and the note of a break. Returns nil for any other value.
local function parse_hold(value, counter)
  if type(value) ~= 'string' then
    return nil
  end
  local mark, token, fences, first, rest = value:match('^lw1([:!])(%x+):(%d+)@?(%d*):(.*)$')
  if first == '' then
    local last = type(counter) == 'string' and tonumber(counter:match('^%d+'))
    first = last and text(last + 1 - fences) or nil
  end
  if mark == ':' then
    return token, first, fences, rest
  elseif mark == '!' then
    local identity, note = rest:match('^([^\n]*)\n(.*)$')
    return token, first, fences, identity or rest, note or ''
  end
end

local function extend_expiry(key, life)
  if redis.call('PTTL', key) < life then
    redis.call('PEXPIRE', key, text(life))
  end
end
