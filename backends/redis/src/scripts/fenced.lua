-- Ahead of a user's script: it runs only if no later holder has been here.
--
-- KEYS[1]  the key of the highest fence
-- ARGV[1]  the fence, in decimal
--
-- The user's own keys and arguments come behind these, and the script sees them alone.
do
    local highest = redis.call('GET', KEYS[1])
    if highest and not string.match(highest, '^%d+$') then
        return redis.error_reply('LOCKWRIGHTNOFENCE ' .. 'what stands there is none')
    end
    -- Both are below 2^53, which doubles count up to.
    if highest and tonumber(highest) > tonumber(ARGV[1]) then
        return redis.error_reply('LOCKWRIGHTSUPERSEDED ' .. highest)
    end
    -- First, as nothing that the user's script does is undone when it fails; and as the text that it is, as
    -- Lua would write large numbers with an exponent.
    if highest ~= ARGV[1] then
        redis.call('SET', KEYS[1], ARGV[1])
    end
    table.remove(KEYS, 1)
    table.remove(ARGV, 1)
end
