-- Marks a hold as broken, which prevents its renewal. The first break keeps its reason.
-- ?1 name, ?2 token, ?3 broken
UPDATE lockwright_lease SET broken = coalesce(broken, ?3) WHERE name = ?1 AND token = ?2
