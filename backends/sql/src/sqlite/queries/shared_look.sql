-- Also the time until which a waiting writer blocks readers.
-- ?1 name, ?2 boot, ?3 now
SELECT coalesce(sum(beside.permits) FILTER (WHERE beside.mode <> 'exclusive'), 0) AS taken,
       min(beside.expires_ns) FILTER (WHERE beside.mode <> 'exclusive') AS first_end,
       max(beside.expires_ns) FILTER (WHERE beside.mode <> 'exclusive') AS last_end,
       max(beside.expires_ns) FILTER (WHERE beside.mode = 'exclusive' AND beside.fence = lease.fence)
           AS writer_until
FROM lockwright_beside AS beside
LEFT JOIN lockwright_lease AS lease ON lease.name = beside.name AND lease.mode <> 'exclusive'
WHERE beside.name = ?1 AND beside.boot = ?2 AND beside.expires_ns > ?3
