-- Like `swap`, for a shared hold. Runs after `shared_lock`.
WITH seen AS MATERIALIZED (
    SELECT lease.*, now
    FROM {lease} AS lease
    CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
    WHERE lease.name = :name AND lease.mode = :mode AND lease.token IS NOT NULL
      AND lease.expires > now AND position(:token IN lease.tombstones) = 0
      AND NOT EXISTS (SELECT FROM {tombstone} WHERE token = :token)
), old AS MATERIALIZED (
    SELECT holder.token, seen.now, seen.waiting,
           CASE WHEN holder.token = :token OR :size = 0 THEN holder.fence
                ELSE greatest(seen.fence + seen.fences, seen.now) END AS next
    FROM seen
    JOIN {shared_holder} AS holder ON holder.name = seen.name AND holder.token IN (:from, :token)
    WHERE holder.expires > seen.now AND holder.broken IS NULL
      AND holder.mode = :mode AND holder.permits = :permits AND holder.size = :size
    -- If an earlier answer was lost, the new token already has the hold.
    ORDER BY holder.token = :token DESC LIMIT 1
), swapped AS (
    UPDATE {shared_holder} AS holder SET
        token = :token, identity = :identity, fence = next, ttl = :ttl, expires = now + :ttl,
        updated = now
    FROM old WHERE holder.name = :name AND holder.token = old.token
    RETURNING holder.*, old.waiting > now AS waiting
), kept AS (
    UPDATE {lease} AS lease SET
        fence = greatest(lease.fence, next), expires = greatest(lease.expires, now + :ttl),
        updated = now
    FROM old WHERE lease.name = :name
), ended AS (
    INSERT INTO {tombstone} AS tombstone (token, until)
    SELECT :from, now + :tombstone FROM old
    ON CONFLICT (token) DO UPDATE SET until = greatest(tombstone.until, excluded.until)
)
SELECT name, token, identity, mode, fence, 1::bigint, expires, broken, waiting, updated, permits, size
FROM swapped;
