-- Prevents renewals of the hold. An earlier break's reason stays. Returns in how many microseconds
-- it expires, or no row if the token doesn't hold.
UPDATE {lease} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now}
RETURNING expires - {now}
