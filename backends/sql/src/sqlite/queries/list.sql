-- One page of held names from a key on; the caller stops at the end of the prefix.
-- ?1 from, ?2 whether that one is included, ?3 boot, ?4 now, ?5 limit
SELECT name, token, identity, mode, fence, fences, expires_ns, boot, broken
FROM lockwright_lease
WHERE name >= ?1 AND (?2 OR name <> ?1) AND boot = ?3 AND expires_ns > ?4
ORDER BY name
LIMIT ?5
