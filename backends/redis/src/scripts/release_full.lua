-- Continues release.lua for withdrawals, shared holds and permits, and if offer_exclusive() returns nil.

local its
local function look()
  if not micros then
    read_time()
  end
  its = queue_of(KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6], micros, ARGV[5] == '1')
  return its.look(ended and false)
end
if not ended then
  if not look() then
    return its.withdraw(token) and 1 or 0
  elseif not its.leave(token) and not its.withdraw(token) then
    return 0
  end
end

-- The hold has ended, even if a later command fails.
local life = 0
pcall(function()
  if its or look() then
    life = its.grant_next()
    if its.is_unfinished then
      redis.pcall('PUBLISH', ARGV[3], ARGV[4])
    end
  end
end)
return math.max(life, 1)
