SELECT lease.name, COALESCE(holder.token, lease.token), COALESCE(holder.identity, lease.identity),
       lease.mode, COALESCE(holder.fence, lease.fence), lease.fences,
       COALESCE(holder.expires, lease.expires), COALESCE(holder.broken, lease.broken), FALSE, {now},
       holder.permits, holder.size
FROM {lease} AS lease
LEFT JOIN {shared_holder} AS holder
    ON lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > {now}
    AND holder.name = lease.name AND holder.mode = lease.mode AND holder.expires > {now}
WHERE lease.name = :name;
