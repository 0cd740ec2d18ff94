-- Grants a name that is free or whose hold has expired. Otherwise returns no row.
-- ?1 name, ?2 token, ?3 identity, ?4 fences, ?5 ttl, ?6 boot, ?7 now
INSERT INTO lockwright_lease
    (name, token, identity, mode, fence, fences, ttl_ns, expires_ns, boot, updated, broken)
SELECT ?1, ?2, ?3, 'exclusive', meta.fence + 1, ?4, ?5, ?7 + ?5, ?6, datetime('now', 'subsec'), NULL
FROM lockwright_meta AS meta
WHERE NOT EXISTS (SELECT 1 FROM lockwright_tombstone WHERE token = ?2 AND boot = ?6)
ON CONFLICT (name) DO UPDATE SET
    token = excluded.token,
    identity = excluded.identity,
    mode = excluded.mode,
    fence = excluded.fence,
    fences = excluded.fences,
    ttl_ns = excluded.ttl_ns,
    expires_ns = excluded.expires_ns,
    boot = excluded.boot,
    updated = excluded.updated,
    broken = NULL
WHERE lockwright_lease.boot <> ?6 OR lockwright_lease.expires_ns <= ?7
RETURNING fence, fences
