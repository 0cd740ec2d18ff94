-- Makes the name expire with its last remaining holder.
-- ?1 name, ?2 expires
UPDATE lockwright_lease SET expires_ns = ?2 WHERE name = ?1 AND mode <> 'exclusive'
