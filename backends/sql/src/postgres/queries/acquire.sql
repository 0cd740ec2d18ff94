-- Grants a free or expired name, renews the token's own hold, or records a waiter. Returns whether
-- the token has a tombstone, followed by the present hold.
--
-- Reads the clock after locking the row, so no expired hold is renewed and no TTL starts early.
WITH seen AS (
    SELECT * FROM {lease} WHERE name = :name
), ended AS (
    SELECT token FROM {tombstone} WHERE token = :token
), written AS (
    INSERT INTO {lease} AS lease
        (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, waiting, tombstones)
    SELECT :name, :token, :identity, 'exclusive',
           -- Must exceed the seen row's fences, even if a sweep deletes that row before the insert.
           greatest(meta.floor + 1, coalesce(seen.fence + seen.fences, 0), at.now),
           :fences, :ttl, at.now + :ttl, at.now, NULL, 0, ''
    FROM {meta} AS meta
    CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
    LEFT JOIN seen ON true
    WHERE NOT EXISTS (SELECT FROM ended)
      -- A rejected claim writes nothing, unless it waits and `waiting` ends within 15 seconds.
      AND NOT coalesce(
          seen.token <> :token AND seen.expires > at.now
              AND (NOT :waits OR seen.waiting > at.now + 15000000),
          false)
    ON CONFLICT (name) DO UPDATE SET
        (token, identity, mode, fence, fences, ttl, expires, updated, broken, waiting) = (
            SELECT
                CASE WHEN free THEN excluded.token ELSE lease.token END,
                CASE WHEN free THEN excluded.identity ELSE lease.identity END,
                CASE WHEN free THEN excluded.mode ELSE lease.mode END,
                CASE WHEN free THEN greatest(lease.fence + lease.fences, excluded.fence)
                     ELSE lease.fence END,
                CASE WHEN free THEN excluded.fences ELSE lease.fences END,
                CASE WHEN free OR again THEN excluded.ttl ELSE lease.ttl END,
                CASE WHEN free OR again THEN now + excluded.ttl ELSE lease.expires END,
                CASE WHEN free OR again THEN now ELSE lease.updated END,
                CASE WHEN free THEN NULL ELSE lease.broken END,
                CASE WHEN :waits AND NOT free AND NOT mine THEN now + 30000000
                     ELSE lease.waiting END
            FROM (
                SELECT now,
                       (lease.token IS NULL OR lease.expires <= now)
                           AND position(excluded.token IN lease.tombstones) = 0 AS free,
                       lease.token = excluded.token AND lease.expires > now
                           AND lease.broken IS NULL AS again,
                       coalesce(lease.token = excluded.token, false) AS mine
                FROM (SELECT {now} AS now OFFSET 0) AS clock
            ) AS state)
    RETURNING lease.*
), answer AS (
    SELECT * FROM written
    UNION ALL
    SELECT * FROM seen
    WHERE NOT EXISTS (SELECT FROM written) AND NOT EXISTS (SELECT FROM ended)
)
SELECT position(:token IN tombstones) > 0, name, token, identity, mode, fence, fences::bigint, expires,
       broken, waiting > at.now, at.now
FROM answer
CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
UNION ALL
SELECT true, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM ended
