WITH held AS (
    SELECT lease.*, now
    FROM {lease} AS lease
    CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
    WHERE name >= greatest(:first, :after COLLATE "C") AND name <= :last
      AND name IS DISTINCT FROM :after AND token IS NOT NULL AND expires > now
    ORDER BY name LIMIT :limit
)
SELECT held.name, coalesce(holder.token, held.token), coalesce(holder.identity, held.identity),
       held.mode, coalesce(holder.fence, held.fence), held.fences::bigint,
       coalesce(holder.expires, held.expires), coalesce(holder.broken, held.broken),
       held.waiting > now, now, holder.permits, holder.size
FROM held
LEFT JOIN {shared_holder} AS holder
    ON held.mode <> 'exclusive'
    AND holder.name = held.name AND holder.mode = held.mode AND holder.expires > now
ORDER BY held.name
