-- ?1 name, ?2 token, ?3 identity, ?4 mode, ?5 permits, ?6 size, ?7 fence, ?8 ttl, ?9 expires, ?10 boot
INSERT INTO lockwright_shared_holder
    (name, token, identity, mode, permits, size, fence, ttl_ns, expires_ns, boot, updated, broken)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, datetime('now', 'subsec'), NULL)
ON CONFLICT (name, token) DO UPDATE SET
    identity = excluded.identity,
    mode = excluded.mode,
    permits = excluded.permits,
    size = excluded.size,
    fence = excluded.fence,
    ttl_ns = excluded.ttl_ns,
    expires_ns = excluded.expires_ns,
    boot = excluded.boot,
    updated = excluded.updated,
    broken = NULL
