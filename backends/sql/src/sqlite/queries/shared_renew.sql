-- The caller read ?2 under the write lock.
-- ?1 JSON [[name, token, ttl], ...], ?2 now, ?3 boot
UPDATE lockwright_beside
SET ttl_ns = asked.ttl, expires_ns = ?2 + asked.ttl, updated = datetime('now', 'subsec')
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS token, value ->> 2 AS ttl FROM json_each(?1)
) AS asked
JOIN lockwright_lease AS lease ON lease.name = asked.name
WHERE lockwright_beside.name = asked.name
  AND lockwright_beside.token = asked.token
  AND lockwright_beside.boot = ?3
  AND lockwright_beside.expires_ns > ?2
  AND lockwright_beside.broken IS NULL
  -- Excludes a waiting writer.
  AND lockwright_beside.mode <> 'exclusive'
  AND lease.mode = lockwright_beside.mode
RETURNING token
