-- Transfers a hold to a new token, with a tombstone for the old one. Returns the hold if either
-- token had it.
WITH swapped AS (
    UPDATE {lease} AS lease SET
        fence = CASE WHEN lease.token = :from THEN greatest(lease.fence + lease.fences, {now})
                     ELSE lease.fence END,
        fences = CASE WHEN lease.token = :from THEN 1 ELSE lease.fences END,
        tombstones = CASE WHEN lease.token = :from THEN right(lease.tombstones || ' ' || :from, 16 * 33)
                      ELSE lease.tombstones END,
        token = :token, identity = :identity, ttl = :ttl, expires = {now} + :ttl, updated = {now}
    WHERE lease.name = :name AND lease.token IN (:from, :token) AND lease.expires > {now}
      AND lease.broken IS NULL AND position(:token IN lease.tombstones) = 0
      AND NOT EXISTS (SELECT FROM {tombstone} AS tombstone WHERE tombstone.token = :token)
    RETURNING lease.*
), ended AS (
    INSERT INTO {tombstone} AS tombstone (token, until)
    SELECT :from, {now} + :tombstone FROM swapped
    ON CONFLICT (token) DO UPDATE SET until = greatest(tombstone.until, excluded.until)
)
SELECT name, token, identity, mode, fence, fences::bigint, expires, broken, waiting > updated, updated
FROM swapped
