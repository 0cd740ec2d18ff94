-- Opens a free name for shared holders.
-- ?1 name, ?2 the token column, ?3 mode, ?4 ttl, ?5 expires, ?6 boot
INSERT INTO lockwright_lease
    (name, token, identity, mode, fence, fences, ttl_ns, expires_ns, boot, updated, broken)
SELECT ?1, ?2, 'null', ?3, meta.fence + 1, 1, ?4, ?5, ?6, datetime('now', 'subsec'), NULL
FROM lockwright_meta AS meta
WHERE true
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
RETURNING fence
