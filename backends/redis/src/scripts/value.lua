-- The value of a lock's key.
--
--   lw1:TOKEN:FENCE:FENCES:SINCE:IDENTITY    an exclusive hold
--   lw1!TOKEN:FENCE:FENCES:SINCE:IDENTITY    the same, broken: it runs out. A line feed, the operator and the reason
--                                            follow
--   lockwright:shared:EPOCH                  shared holders
--   lockwright:permits:OF                    permits
--
-- Any other value is another program's lock. TIME is in µs.

-- 'held' or 'broken' if it is an exclusive hold of the token, else nil.
local function state_of(value, token)
  if type(value) == 'string' and value:sub(5, #token + 5) == token .. ':' then
    local start = value:sub(1, 4)
    return start == 'lw1:' and 'held' or start == 'lw1!' and 'broken' or nil
  end
end

-- Token, first fence, fences, identity, operator and reason of a break.
local function exclusive_hold(value)
  if type(value) ~= 'string' then
    return nil
  end
  local mark, token, fence, fences, rest = value:match('^lw1([:!])(%x+):(%d+):(%d+):%d+:(.*)$')
  if mark == ':' then
    return token, fence, fences, rest
  elseif mark == '!' then
    local identity, note = rest:match('^([^\n]*)\n(.*)$')
    return token, fence, fences, identity or rest, note or ''
  end
end
