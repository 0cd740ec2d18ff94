-- Prevents a renewal. The first break's reason stays.
-- If it is held, returns in how many microseconds it expires.
UPDATE {lease} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now}
RETURNING expires - {now}
