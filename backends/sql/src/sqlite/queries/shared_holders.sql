-- ?1 name, ?2 boot, ?3 now
SELECT name, token, identity, mode, permits, size, fence, 1 AS fences, expires_ns, boot, broken
FROM lockwright_shared_holder
WHERE name = ?1 AND boot = ?2 AND expires_ns > ?3 AND mode <> 'exclusive'
