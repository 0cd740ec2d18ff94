-- Grants a free or expired name whose row exists. Returns true, the fence, and whether other
-- clients wait.
--
-- If the row changes while the update waits for it, the server evaluates the update again.
-- Otherwise, the TTL starts before the wait: the hold ends early, which is safe.
UPDATE {lease} SET
    token = :token, identity = :identity, mode = 'exclusive',
    fence = greatest(fence + fences, {now}), fences = :fences, ttl = :ttl, expires = {now} + :ttl,
    updated = {now}, broken = NULL
WHERE name = :name AND (token IS NULL OR expires <= {now}) AND position(:token IN tombstones) = 0
  AND NOT EXISTS (SELECT FROM {tombstone} WHERE token = :token)
RETURNING true, fence, waiting > updated
