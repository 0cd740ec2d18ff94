-- Returns names that no waiter can acquire now: exclusive holds, semaphores without a free permit,
-- and names with readers and a waiting writer. Names with readers alone are omitted, because their
-- waiters may be readers.
-- ?1 JSON [name, ...], ?2 boot, ?3 now
SELECT lease.name
FROM json_each(?1) AS asked
CROSS JOIN lockwright_lease AS lease ON lease.name = asked.value
WHERE lease.boot = ?2 AND lease.expires_ns > ?3
  AND CASE lease.mode
      WHEN 'permits' THEN
          (SELECT sum(holder.permits) >= max(holder.size) FROM lockwright_shared_holder AS holder
           WHERE holder.name = lease.name AND holder.boot = ?2 AND holder.expires_ns > ?3
             AND holder.mode = 'permits')
      WHEN 'shared' THEN
          EXISTS (SELECT 1 FROM lockwright_shared_holder AS holder
                  WHERE holder.name = lease.name AND holder.boot = ?2 AND holder.expires_ns > ?3
                    AND holder.mode = 'exclusive' AND holder.fence = lease.fence)
      ELSE true END
