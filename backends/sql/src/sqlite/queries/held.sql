-- Which of some names are held.
-- ?1 JSON [name, ...], ?2 boot, ?3 now
SELECT lease.name
FROM json_each(?1) AS asked
CROSS JOIN lockwright_lease AS lease ON lease.name = asked.value
WHERE lease.boot = ?2 AND lease.expires_ns > ?3
