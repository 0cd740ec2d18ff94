-- Prevents a renewal. The first break's reason stays.
-- Returns, if it is held: in how many microseconds it expires
UPDATE {lease} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now}
RETURNING expires - {now}
