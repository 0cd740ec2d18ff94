-- ?1 name, ?2 boot, ?3 now
SELECT coalesce(sum(holder.permits) FILTER (WHERE holder.mode <> 'exclusive'), 0) AS taken,
       min(holder.expires_ns) FILTER (WHERE holder.mode <> 'exclusive') AS first_end,
       max(holder.expires_ns) FILTER (WHERE holder.mode <> 'exclusive') AS last_end,
       max(holder.expires_ns) FILTER (WHERE holder.mode = 'exclusive' AND holder.fence = lease.fence)
           AS writer_until
FROM lockwright_shared_holder AS holder
LEFT JOIN lockwright_lease AS lease ON lease.name = holder.name AND lease.mode <> 'exclusive'
WHERE holder.name = ?1 AND holder.boot = ?2 AND holder.expires_ns > ?3
