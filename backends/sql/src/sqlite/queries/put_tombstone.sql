-- ?1 token, ?2 until, ?3 boot, ?4 broken
INSERT INTO lockwright_tombstone (token, until_ns, boot, broken) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (token) DO UPDATE SET
    until_ns = max(until_ns, excluded.until_ns),
    boot = excluded.boot,
    broken = coalesce(broken, excluded.broken)
