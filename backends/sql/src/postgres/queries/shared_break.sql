-- Prevents renewals. Runs after `shared_lock`, so that no repeated acquire renews the hold
-- concurrently. If the token holds, returns in how many microseconds it expires.
UPDATE {shared_holder} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now} AND mode <> 'exclusive'
RETURNING expires - {now}
