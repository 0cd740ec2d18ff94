-- Continues release.lua.

local ended
if offered == 'sent' then
  publish_lifetime(tokens, records, 2, micros, life + 0)
  return life + 0
elseif offered then
  if type(redis.pcall('DEL', KEYS[1])) ~= 'number' then
    -- DEL failed, so the offer remains until it lapses.
    return life + 0
  elseif offered == 'unsent' then
    queue_again(KEYS[4], KEYS[6], tokens[1], records[1])
    return 1
  end
  ended = true
else
  local time = redis.call('TIME')
  micros = time[1] * 1000000 + time[2]
  -- The tombstone is first, to refuse a late acquire even if a later command fails.
  if ARGV[2] ~= '0' then
    mark_counter(KEYS[3], micros, tonumber(ARGV[2]))
    redis.call('SET', KEYS[2], 'released', 'PX', ARGV[2])
  end
  ended = hold_state(redis.pcall('GET', KEYS[1]), token)
  if ended then
    redis.call('DEL', KEYS[1])
  elseif redis.call('EXISTS', KEYS[4], KEYS[5]) == 0 then
    return 0
  end
end

local its = queue_of(KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6], micros, ARGV[5] == '1')
if not ended then
  if not its.look() then
    return its.withdraw(token) and 1 or 0
  elseif not its.leave(token) and not its.withdraw(token) then
    return 0
  end
end

-- The hold has ended, so later errors are ignored.
pcall(function()
  life = 0
  if not ended or its.look(false) then
    life = its.grant_next()
    if its.is_unfinished then
      redis.pcall('PUBLISH', ARGV[3], ARGV[4])
    end
  end
end)
return math.max(life, 1)
