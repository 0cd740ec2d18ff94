-- Prevents a renewal. The first break's reason stays. Runs after `shared_lock`, so that no repeat of the claim runs
-- concurrently.
-- If it is held, returns in how many microseconds it expires.
UPDATE {shared_holder} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now} AND mode <> 'exclusive'
RETURNING expires - {now}
