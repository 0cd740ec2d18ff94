-- Marks a hold as broken: it can't be renewed any more. The first break keeps its reason.
-- ?1 name, ?2 token, ?3 broken
UPDATE lockwright_lease SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
