-- Marks a hold as broken, which prevents its renewal. The first break keeps its reason.
-- :name, :token, :broken
-- Returns, if it is held: in how many microseconds it expires
UPDATE {lease} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now}
RETURNING expires - {now}
