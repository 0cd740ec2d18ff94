-- Marks the hold as broken. An earlier break's reason stays.
-- ?1 name, ?2 token, ?3 broken
UPDATE lockwright_shared_holder SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
