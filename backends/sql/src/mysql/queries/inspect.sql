SELECT lease.name, COALESCE(beside.token, lease.token), COALESCE(beside.identity, lease.identity),
       lease.mode, COALESCE(beside.fence, lease.fence), lease.fences,
       COALESCE(beside.expires, lease.expires), COALESCE(beside.broken, lease.broken), FALSE, {now},
       beside.permits, beside.size
FROM {lease} AS lease
LEFT JOIN {beside} AS beside
    ON lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > {now}
    AND beside.name = lease.name AND beside.mode = lease.mode AND beside.expires > {now}
WHERE lease.name = :name;
