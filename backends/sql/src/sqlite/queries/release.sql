/* release */
DELETE FROM lockwright_lease WHERE name = ?1 AND token = ?2 RETURNING expires_ns, boot

/* put_tombstone */
INSERT INTO lockwright_tombstone (token, until_ns, boot, broken) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (token) DO UPDATE SET
    until_ns = max(until_ns, excluded.until_ns), boot = excluded.boot,
    broken = coalesce(broken, excluded.broken)

/* shared_release */
DELETE FROM lockwright_shared_holder WHERE name = ?1 AND token = ?2 RETURNING mode, expires_ns, boot

/* shared_shorten */
UPDATE lockwright_lease SET expires_ns = ?2 WHERE name = ?1 AND mode <> 'exclusive'

/* shared_close */
DELETE FROM lockwright_lease WHERE name = ?1 AND mode <> 'exclusive'
