-- Makes the names expire with their last holders.
-- ?1 JSON [[name, ...], ...], ?2 now, ?3 boot
UPDATE lockwright_lease
SET expires_ns = max(expires_ns, coalesce((
    SELECT max(shared.expires_ns) FROM lockwright_shared_holder AS shared
    WHERE shared.name = lockwright_lease.name AND shared.boot = ?3 AND shared.mode <> 'exclusive'), 0)),
    updated = datetime('now', 'subsec')
WHERE name IN (SELECT value ->> 0 FROM json_each(?1))
  AND mode <> 'exclusive' AND boot = ?3 AND expires_ns > ?2
