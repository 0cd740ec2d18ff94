-- If a hold of another mode is live, rejects the claim without locking the row: many locks would
-- delay the holder's renewals. `SELECT ... INTO` reads without a lock, unlike a subquery in SET.
BEGIN;

-- The SELECT assigns nothing without such a hold. The server reports an assignment, as an aggregate
-- would always make, as a change: a later error would be `Indeterminate`.
SET @lockwright_blocked = NULL;
SELECT TRUE INTO @lockwright_blocked
FROM {lease} WHERE name = :name AND token IS NOT NULL AND mode <> :mode AND expires > {now};

INSERT INTO {lease}
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, tombstones, decided)
SELECT :name, NULL, '', 'exclusive',
       GREATEST(meta.floor, COALESCE(seen.fence + seen.fences - 1, 0)), 1, 0, 0, {now}, NULL, '', 0
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
WHERE @lockwright_blocked IS NULL
ON DUPLICATE KEY UPDATE decided = {lease}.decided;

SET @lockwright_now = {now};

SELECT lease.fence, lease.fences,
       COALESCE(lease.token IS NOT NULL AND lease.expires > @lockwright_now, FALSE),
       COALESCE(lease.token IS NOT NULL AND lease.mode = :mode AND lease.expires > @lockwright_now, FALSE),
       LOCATE(:token, lease.tombstones) > 0
           OR EXISTS (SELECT 1 FROM {tombstone} AS tombstone WHERE tombstone.token = :token)
INTO @lockwright_fence, @lockwright_fences, @lockwright_live, @lockwright_ours, @lockwright_buried
FROM {lease} AS lease WHERE lease.name = :name;

SELECT COALESCE(SUM(IF(mode <> 'exclusive', permits, 0)), 0),
       MIN(IF(mode <> 'exclusive', expires, NULL)),
       MAX(IF(mode = 'exclusive' AND fence = @lockwright_fence, expires, NULL)),
       COALESCE(MAX(mode <> 'exclusive' AND token = :token), 0)
           AND @lockwright_ours AND NOT @lockwright_buried AND @lockwright_blocked IS NULL,
       COALESCE(MAX(mode <> 'exclusive' AND token = :token AND broken IS NOT NULL), 0)
INTO @lockwright_taken, @lockwright_first_end, @lockwright_writer_until, @lockwright_own,
     @lockwright_broken
FROM {shared_holder} WHERE name = :name AND expires > @lockwright_now;

-- The effect, as in the column `decided`.
SET @lockwright_does = CASE
    -- A blocked claim hasn't locked the row, so the values read above may be inconsistent.
    WHEN @lockwright_blocked OR @lockwright_buried THEN 0
    WHEN @lockwright_own THEN IF(@lockwright_broken, 0, 1)
    WHEN @lockwright_live AND NOT @lockwright_ours THEN 0
    WHEN :size = 0 AND @lockwright_writer_until IS NOT NULL THEN 0
    WHEN :size > 0 AND @lockwright_taken + :permits > :size THEN 0
    ELSE 2 END;

SET @lockwright_fence = IF(
    @lockwright_does < 2 OR (@lockwright_ours AND :size = 0), @lockwright_fence,
    GREATEST(@lockwright_fence + @lockwright_fences, (SELECT floor + 1 FROM {meta}), @lockwright_now));

INSERT INTO {shared_holder}
    (name, token, identity, mode, permits, size, fence, ttl, expires, updated, broken)
SELECT :name, :token, :identity, :mode, :permits, :size, @lockwright_fence, :ttl,
       @lockwright_now + :ttl, @lockwright_now, NULL
FROM {meta} AS meta WHERE @lockwright_does = 2
ON DUPLICATE KEY UPDATE
    identity = VALUES(identity), mode = VALUES(mode), permits = VALUES(permits), size = VALUES(size),
    fence = VALUES(fence), ttl = VALUES(ttl), expires = VALUES(expires), updated = VALUES(updated),
    broken = NULL;

UPDATE {shared_holder} SET ttl = :ttl, expires = @lockwright_now + :ttl, updated = @lockwright_now
WHERE name = :name AND token = :token AND @lockwright_does = 1;

UPDATE {lease} SET
    token = :kind, identity = '', mode = :mode, fence = @lockwright_fence, fences = 1, ttl = :ttl,
    expires = IF(@lockwright_ours, GREATEST(expires, @lockwright_now + :ttl), @lockwright_now + :ttl),
    updated = @lockwright_now, broken = NULL
WHERE name = :name AND @lockwright_does > 0;

DELETE FROM {shared_holder}
WHERE name = :name AND token <> :token AND expires < @lockwright_now - 60000000
  AND @lockwright_does = 2;

SELECT FALSE, name, token, identity, mode, fence, 1, expires, broken, FALSE,
       CAST(@lockwright_now AS SIGNED), permits, size
FROM {shared_holder}
WHERE name = :name AND token = :token AND (@lockwright_does > 0 OR @lockwright_own)
UNION ALL
SELECT CAST(@lockwright_buried AS SIGNED), name, IF(@lockwright_live, token, NULL), identity, mode, fence,
       fences,
       CAST(COALESCE(CASE WHEN @lockwright_ours AND :size > 0 THEN @lockwright_first_end
                          WHEN @lockwright_live THEN expires
                          ELSE @lockwright_writer_until END, @lockwright_now) AS SIGNED),
       broken, FALSE, CAST(@lockwright_now AS SIGNED), NULL, NULL
FROM {lease} WHERE name = :name AND @lockwright_does = 0 AND NOT @lockwright_own;

COMMIT;
