-- Returns the name's row, or one row for each of its shared holders. The column of `waiting` is
-- false if the row's `waiting` ends within 15 seconds. Then a waiter's `acquire` extends it.
SELECT lease.name, coalesce(holder.token, lease.token), coalesce(holder.identity, lease.identity),
       lease.mode, coalesce(holder.fence, lease.fence), lease.fences::bigint,
       coalesce(holder.expires, lease.expires), coalesce(holder.broken, lease.broken),
       lease.waiting > now + 15000000, now, holder.permits, holder.size
FROM {lease} AS lease
CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
LEFT JOIN {shared_holder} AS holder
    ON lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > now
    AND holder.name = lease.name AND holder.mode = lease.mode AND holder.expires > now
WHERE lease.name = :name
