-- Prevents renewals of the hold. An earlier break's reason stays. Runs after `shared_lock`, so that
-- no repeated claim runs concurrently. Returns in how many microseconds it expires, or no row if
-- the token doesn't hold.
UPDATE {shared_holder} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now} AND mode <> 'exclusive'
RETURNING expires - {now}
