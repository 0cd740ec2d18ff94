-- Returns the name's row, or one for each of its shared holders
SELECT lease.name,
       coalesce(beside.token, lease.token),
       coalesce(beside.identity, lease.identity),
       lease.mode,
       coalesce(beside.fence, lease.fence),
       lease.fences::bigint,
       coalesce(beside.expires, lease.expires),
       coalesce(beside.broken, lease.broken),
       lease.waiting > now,
       now,
       beside.permits,
       beside.size
FROM {lease} AS lease
CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
LEFT JOIN {beside} AS beside
    ON lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > now
    AND beside.name = lease.name AND beside.mode = lease.mode AND beside.expires > now
WHERE lease.name = :name
