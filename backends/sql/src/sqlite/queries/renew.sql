/* renew */
-- ?1 JSON [[name, token, ttl], ...], ?2 now, ?3 boot
UPDATE lockwright_lease
SET ttl_ns = asked.ttl, expires_ns = ?2 + asked.ttl
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS token, value ->> 2 AS ttl FROM json_each(?1)
) AS asked
WHERE lockwright_lease.name = asked.name AND lockwright_lease.token = asked.token
  AND lockwright_lease.boot = ?3 AND lockwright_lease.expires_ns > ?2
  AND lockwright_lease.broken IS NULL
RETURNING token

/* why_not_held */
SELECT count(broken) > 0 AS broken, count(name) > 0 AS ran_out
FROM (
    SELECT name, broken FROM lockwright_lease WHERE name = ?1 AND token = ?2
    UNION ALL
    SELECT name, broken FROM lockwright_shared_holder WHERE name = ?1 AND token = ?2
    UNION ALL
    SELECT NULL, broken FROM lockwright_tombstone WHERE token = ?2
)

/* shared_renew */
-- ?1 JSON [[name, token, ttl], ...], ?2 now, ?3 boot
UPDATE lockwright_shared_holder
SET ttl_ns = asked.ttl, expires_ns = ?2 + asked.ttl
FROM (
    SELECT value ->> 0 AS name, value ->> 1 AS token, value ->> 2 AS ttl FROM json_each(?1)
) AS asked
JOIN lockwright_lease AS lease ON lease.name = asked.name
WHERE lockwright_shared_holder.name = asked.name AND lockwright_shared_holder.token = asked.token
  AND lockwright_shared_holder.boot = ?3 AND lockwright_shared_holder.expires_ns > ?2
  AND lockwright_shared_holder.broken IS NULL
  -- A waiting writer's row isn't a hold.
  AND lockwright_shared_holder.mode <> 'exclusive' AND lease.mode = lockwright_shared_holder.mode
RETURNING token

/* shared_own */
SELECT name, token, identity, mode, permits, size, fence, 1 AS fences, expires_ns, boot, granted_ns,
       broken
FROM lockwright_shared_holder WHERE name = ?1 AND token = ?2

/* shared_keep */
-- Extends each name's row to the expiry of the name's last holder.
-- ?1 JSON [name, ...], ?2 now, ?3 boot
UPDATE lockwright_lease
SET expires_ns = max(expires_ns, coalesce((
    SELECT max(shared.expires_ns) FROM lockwright_shared_holder AS shared
    WHERE shared.name = lockwright_lease.name AND shared.boot = ?3 AND shared.mode <> 'exclusive'), 0))
WHERE name IN (SELECT value FROM json_each(?1))
  AND mode <> 'exclusive' AND boot = ?3 AND expires_ns > ?2
