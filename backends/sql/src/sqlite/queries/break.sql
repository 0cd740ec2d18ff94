/* break */
UPDATE lockwright_lease SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2

/* shared_break */
UPDATE lockwright_shared_holder SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
