-- Marks the hold as broken, so that it can't be renewed.
UPDATE lockwright_lease SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
