UPDATE lockwright_shared_holder SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
