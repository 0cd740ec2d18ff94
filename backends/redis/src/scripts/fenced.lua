-- Precedes a user's script (fencing.rs), which runs only if no later holder has written. That
-- script sees only its own keys and arguments, which follow.
--
-- KEYS[1]  the key of the highest fence
-- ARGV[1]  the fence, in decimal
do
    local highest = redis.call('GET', KEYS[1])
    if highest and not string.match(highest, '^%d+$') then
        return redis.error_reply('LOCKWRIGHTNOFENCE the value is not a fence')
    end
    -- Fences are below 2^53, so comparing doubles is exact.
    if highest and tonumber(highest) > tonumber(ARGV[1]) then
        return redis.error_reply('LOCKWRIGHTSUPERSEDED ' .. highest)
    end
    -- The fence is written first, because a failed script's effects remain, and as text, because
    -- Lua formats large numbers with an exponent.
    if highest ~= ARGV[1] then
        redis.call('SET', KEYS[1], ARGV[1])
    end
    table.remove(KEYS, 1)
    table.remove(ARGV, 1)
end
