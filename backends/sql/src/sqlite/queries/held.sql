-- Names that no waiter can acquire now: semaphores without a free permit, and names with readers and a
-- waiting writer. Without that writer, waiters are readers.
-- ?1 JSON [name, ...], ?2 boot, ?3 now
SELECT lease.name
FROM json_each(?1) AS asked
CROSS JOIN lockwright_lease AS lease ON lease.name = asked.value
WHERE lease.boot = ?2 AND lease.expires_ns > ?3
  AND CASE lease.mode
      WHEN 'permits' THEN
          (SELECT sum(beside.permits) >= max(beside.size) FROM lockwright_beside AS beside
           WHERE beside.name = lease.name AND beside.boot = ?2 AND beside.expires_ns > ?3
             AND beside.mode = 'permits')
      WHEN 'shared' THEN
          EXISTS (SELECT 1 FROM lockwright_beside AS beside
                  WHERE beside.name = lease.name AND beside.boot = ?2 AND beside.expires_ns > ?3
                    AND beside.mode = 'exclusive' AND beside.fence = lease.fence)
      ELSE true END
