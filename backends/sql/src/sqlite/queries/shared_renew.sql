-- ?1 JSON [[name, token, ttl], ...], ?2 now, ?3 boot
UPDATE lockwright_shared_holder
SET ttl_ns = asked.ttl, expires_ns = ?2 + asked.ttl, updated = datetime('now', 'subsec')
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS token, value ->> 2 AS ttl FROM json_each(?1)
) AS asked
JOIN lockwright_lease AS lease ON lease.name = asked.name
WHERE lockwright_shared_holder.name = asked.name
  AND lockwright_shared_holder.token = asked.token
  AND lockwright_shared_holder.boot = ?3
  AND lockwright_shared_holder.expires_ns > ?2
  AND lockwright_shared_holder.broken IS NULL
  -- A waiting writer's row isn't a hold.
  AND lockwright_shared_holder.mode <> 'exclusive'
  AND lease.mode = lockwright_shared_holder.mode
RETURNING token
