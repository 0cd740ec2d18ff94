-- Prepended to a user's script, which runs only if no later holder has written.
--
-- KEYS[1]  the key of the highest fence
-- ARGV[1]  the fence, in decimal
--
-- The user's keys and arguments follow; the script sees only those.
do
    local highest = redis.call('GET', KEYS[1])
    if highest and not string.match(highest, '^%d+$') then
        return redis.error_reply('LOCKWRIGHTNOFENCE the value is not a fence')
    end
    -- Both are below 2^53, so doubles are exact.
    if highest and tonumber(highest) > tonumber(ARGV[1]) then
        return redis.error_reply('LOCKWRIGHTSUPERSEDED ' .. highest)
    end
    -- The fence is first, because effects of the user's script remain if it fails. It is text, because Lua formats
    -- large numbers with an exponent.
    if highest ~= ARGV[1] then
        redis.call('SET', KEYS[1], ARGV[1])
    end
    table.remove(KEYS, 1)
    table.remove(ARGV, 1)
end
