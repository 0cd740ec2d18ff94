-- Lets a node vote, if its certificate is unchanged.
--
-- KEYS  certificate
-- ARGV  expected certificate
--
-- Returns the current certificate.

local certificate = redis.call('GET', KEYS[1])
if certificate and certificate == ARGV[1] then
  certificate = certificate:gsub('^new ', 'votes ')
  redis.call('SET', KEYS[1], certificate)
end
return certificate
