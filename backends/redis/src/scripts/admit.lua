-- Lets a node vote, if its incarnation is unchanged.
--
-- KEYS  incarnation
-- ARGV  expected incarnation
--
-- Returns the current incarnation.

local incarnation = redis.call('GET', KEYS[1])
if incarnation and incarnation == ARGV[1] then
  incarnation = incarnation:gsub('^new ', 'votes ')
  redis.call('SET', KEYS[1], incarnation)
end
return incarnation
