-- ?1 JSON [[name, token, ttl], ...], ?2 now, ?3 boot
UPDATE lockwright_lease
SET ttl_ns = asked.ttl, expires_ns = ?2 + asked.ttl, updated = datetime('now', 'subsec')
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS token, value ->> 2 AS ttl FROM json_each(?1)
) AS asked
WHERE lockwright_lease.name = asked.name
  AND lockwright_lease.token = asked.token
  AND lockwright_lease.boot = ?3
  AND lockwright_lease.expires_ns > ?2
  AND lockwright_lease.broken IS NULL
RETURNING token
