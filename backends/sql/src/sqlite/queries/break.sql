UPDATE lockwright_lease SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
