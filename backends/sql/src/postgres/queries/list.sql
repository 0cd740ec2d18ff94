-- One page of held names, each with all its holders.
WITH held AS (
    SELECT lease.*, now
    FROM {lease} AS lease
    CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
    WHERE name >= greatest(:first, :after COLLATE "C") AND name <= :last
      AND name IS DISTINCT FROM :after
      AND token IS NOT NULL AND expires > now
    ORDER BY name
    LIMIT :limit
)
SELECT held.name,
       coalesce(beside.token, held.token),
       coalesce(beside.identity, held.identity),
       held.mode,
       coalesce(beside.fence, held.fence),
       held.fences::bigint,
       coalesce(beside.expires, held.expires),
       coalesce(beside.broken, held.broken),
       held.waiting > now,
       now,
       beside.permits,
       beside.size
FROM held
LEFT JOIN {beside} AS beside
    ON held.mode <> 'exclusive'
    AND beside.name = held.name AND beside.mode = held.mode AND beside.expires > now
ORDER BY held.name
