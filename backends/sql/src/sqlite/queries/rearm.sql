-- ?1 name, ?2 token, ?3 ttl, ?4 expires, ?5 boot, ?6 now
UPDATE lockwright_lease
SET ttl_ns = ?3, expires_ns = ?4, updated = datetime('now', 'subsec')
WHERE name = ?1 AND token = ?2 AND boot = ?5 AND expires_ns > ?6 AND broken IS NULL
