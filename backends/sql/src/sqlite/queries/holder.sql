-- ?1 name, ?2 token, ?3 boot
SELECT lease.name, lease.token, lease.identity, lease.mode, lease.fence, lease.fences,
       lease.expires_ns, lease.boot, lease.broken, tombstone.token IS NOT NULL AS is_ended
FROM (SELECT 1)
LEFT JOIN lockwright_lease AS lease ON lease.name = ?1
LEFT JOIN lockwright_tombstone AS tombstone ON tombstone.token = ?2 AND tombstone.boot = ?3
