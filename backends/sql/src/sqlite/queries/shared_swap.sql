-- ?1 name, ?2 old token, ?3 new token, ?4 identity, ?5 fence, ?6 ttl, ?7 expires
UPDATE lockwright_shared_holder
SET token = ?3, identity = ?4, fence = ?5, ttl_ns = ?6, expires_ns = ?7, updated = datetime('now', 'subsec')
WHERE name = ?1 AND token = ?2
