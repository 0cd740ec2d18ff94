-- After one has gone: the name runs out with the last of the others.
-- ?1 name, ?2 expires
UPDATE lockwright_lease SET expires_ns = ?2 WHERE name = ?1 AND mode <> 'exclusive'
