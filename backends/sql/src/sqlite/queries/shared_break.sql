-- Marks the hold as broken, so that it can't be renewed.
UPDATE lockwright_shared_holder SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
