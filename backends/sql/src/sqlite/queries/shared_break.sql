-- Marks the hold as broken. An earlier break's reason stays.
UPDATE lockwright_shared_holder SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
