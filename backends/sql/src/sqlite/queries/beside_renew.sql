-- Re-arms every hold of the batch that is still held beside others. The caller holds the write lock and
-- read ?2 after it got it.
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
  -- Not a writer that waits.
  AND lockwright_beside.mode <> 'exclusive'
  AND lease.mode = lockwright_beside.mode
RETURNING token
