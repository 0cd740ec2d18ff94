-- Lets a node vote, if its certificate is still the one that was waited for.
--
-- KEYS  certificate
-- ARGV  certificate that was seen
--
-- Answers the certificate that is there now.

local certificate = redis.call('GET', KEYS[1])
if certificate and certificate == ARGV[1] then
  certificate = certificate:gsub('^new ', 'votes ')
  redis.call('SET', KEYS[1], certificate)
end
return certificate
