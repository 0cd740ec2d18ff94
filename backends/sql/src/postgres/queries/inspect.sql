-- The column of `waiting` is false if `waiting` ends within 15 seconds. Then `acquire` extends it.
SELECT held.name, coalesce(holder.token, held.token), coalesce(holder.identity, held.identity),
       held.mode, coalesce(holder.fence, held.fence), held.fences::bigint,
       coalesce(holder.expires, held.expires), coalesce(holder.broken, held.broken),
       held.waiting > now + 15000000, now, holder.permits, holder.size
FROM (SELECT * FROM {lease} WHERE {which}) AS held
CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
LEFT JOIN {shared_holder} AS holder
    ON held.mode <> 'exclusive' AND held.token IS NOT NULL AND held.expires > now
    AND holder.name = held.name AND holder.mode = held.mode AND holder.expires > now
ORDER BY held.name
