/* acquire */
-- Grants a free or expired name. Otherwise returns no row.
INSERT INTO lockwright_lease
    (name, token, identity, mode, fence, fences, ttl_ns, expires_ns, boot, granted_ns, broken)
SELECT ?1, ?2, ?3, 'exclusive', meta.fence + 1, ?4, ?5, ?7 + ?5, ?6, ?7, NULL
FROM lockwright_meta AS meta
WHERE NOT EXISTS (SELECT 1 FROM lockwright_tombstone WHERE token = ?2 AND boot = ?6)
ON CONFLICT (name) DO UPDATE SET
    token = excluded.token, identity = excluded.identity, mode = excluded.mode,
    fence = excluded.fence, fences = excluded.fences, ttl_ns = excluded.ttl_ns,
    expires_ns = excluded.expires_ns, boot = excluded.boot, granted_ns = excluded.granted_ns,
    broken = NULL
WHERE lockwright_lease.boot <> ?6 OR lockwright_lease.expires_ns <= ?7
RETURNING fence, fences

/* holder */
SELECT lease.name, lease.token, lease.identity, lease.mode, lease.fence, lease.fences,
       lease.expires_ns, lease.boot, lease.granted_ns, lease.broken,
       tombstone.token IS NOT NULL AS is_ended
FROM (SELECT 1)
LEFT JOIN lockwright_lease AS lease ON lease.name = ?1
LEFT JOIN lockwright_tombstone AS tombstone ON tombstone.token = ?2 AND tombstone.boot = ?3

/* held */
-- Returns names that no waiter can acquire now: exclusive holds, semaphores whose held permits
-- reach the waiters' largest size, and names with readers and a waiting writer.
-- ?1 JSON [[name, largest size], ...], ?2 boot, ?3 now
SELECT lease.name
FROM json_each(?1) AS asked
CROSS JOIN lockwright_lease AS lease ON lease.name = asked.value ->> 0
WHERE lease.boot = ?2 AND lease.expires_ns > ?3 AND CASE lease.mode
      WHEN 'permits' THEN
          (SELECT sum(holder.permits) >= asked.value ->> 1 FROM lockwright_shared_holder AS holder
           WHERE holder.name = lease.name AND holder.boot = ?2 AND holder.expires_ns > ?3
             AND holder.mode = 'permits')
      WHEN 'shared' THEN
          EXISTS (SELECT 1 FROM lockwright_shared_holder AS holder
                  WHERE holder.name = lease.name AND holder.boot = ?2 AND holder.expires_ns > ?3
                    AND holder.mode = 'exclusive' AND holder.fence = lease.fence)
      ELSE true END

/* shared_open */
-- Writes a free name's row for shared holders.
INSERT INTO lockwright_lease
    (name, token, identity, mode, fence, fences, ttl_ns, expires_ns, boot, granted_ns, broken)
SELECT ?1, ?2, 'null', ?3, meta.fence + 1, 1, ?4, ?5, ?6, ?5 - ?4, NULL
FROM lockwright_meta AS meta WHERE true
ON CONFLICT (name) DO UPDATE SET
    token = excluded.token, identity = excluded.identity, mode = excluded.mode,
    fence = excluded.fence, fences = excluded.fences, ttl_ns = excluded.ttl_ns,
    expires_ns = excluded.expires_ns, boot = excluded.boot, granted_ns = excluded.granted_ns,
    broken = NULL
RETURNING fence

/* shared_look */
SELECT coalesce(sum(holder.permits) FILTER (WHERE holder.mode <> 'exclusive'), 0) AS taken,
       min(holder.expires_ns) FILTER (WHERE holder.mode <> 'exclusive') AS first_end,
       max(holder.expires_ns) FILTER (WHERE holder.mode <> 'exclusive') AS last_end,
       max(holder.expires_ns) FILTER (WHERE holder.mode = 'exclusive' AND holder.fence = lease.fence)
           AS writer_until
FROM lockwright_shared_holder AS holder
LEFT JOIN lockwright_lease AS lease ON lease.name = holder.name AND lease.mode <> 'exclusive'
WHERE holder.name = ?1 AND holder.boot = ?2 AND holder.expires_ns > ?3

/* shared_number */
-- Takes the next fence as a semaphore holder's number.
UPDATE lockwright_lease SET fence = (SELECT fence + 1 FROM lockwright_meta) WHERE name = ?1
RETURNING fence

/* shared_add */
INSERT INTO lockwright_shared_holder
    (name, token, identity, mode, permits, size, fence, ttl_ns, expires_ns, boot, granted_ns, broken)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?9 - ?8, NULL)
ON CONFLICT (name, token) DO UPDATE SET
    identity = excluded.identity, mode = excluded.mode, permits = excluded.permits,
    size = excluded.size, fence = excluded.fence, ttl_ns = excluded.ttl_ns,
    expires_ns = excluded.expires_ns, boot = excluded.boot, granted_ns = excluded.granted_ns,
    broken = NULL
RETURNING fence, 1 AS fences
