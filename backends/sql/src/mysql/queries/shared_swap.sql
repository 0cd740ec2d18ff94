SELECT MAX(lease.fence), MAX(lease.fences),
       MAX(IF(beside.token = :from, beside.fence, NULL)),
       COALESCE(MAX(beside.token = :from), 0), COALESCE(MAX(beside.token = :token), 0)
INTO @lockwright_fence, @lockwright_fences, @lockwright_epoch, @lockwright_old, @lockwright_own
FROM {lease} AS lease
JOIN {beside} AS beside ON beside.name = lease.name AND beside.token IN (:from, :token)
WHERE lease.name = :name AND lease.mode = :mode AND lease.token IS NOT NULL
  AND lease.expires > @lockwright_now
  AND beside.expires > @lockwright_now AND beside.broken IS NULL
  AND beside.mode = :mode AND beside.permits = :permits AND beside.size = :size
  AND LOCATE(:token, lease.buried) = 0
  AND NOT EXISTS (SELECT 1 FROM {tombstone} AS tombstone WHERE tombstone.token = :token);

SET @lockwright_old = @lockwright_old AND NOT @lockwright_own;

SET @lockwright_epoch = IF(:size = 0, @lockwright_epoch,
                           GREATEST(@lockwright_fence + @lockwright_fences, @lockwright_now));

UPDATE {beside} SET
    token = :token,
    identity = :identity,
    fence = @lockwright_epoch,
    ttl = :ttl,
    expires = @lockwright_now + :ttl,
    updated = @lockwright_now
WHERE name = :name AND token = :from AND @lockwright_old;

UPDATE {beside} SET ttl = :ttl, expires = @lockwright_now + :ttl, updated = @lockwright_now
WHERE name = :name AND token = :token AND @lockwright_own;

UPDATE {lease} SET
    fence = IF(@lockwright_old, GREATEST(fence, @lockwright_epoch), fence),
    expires = GREATEST(expires, @lockwright_now + :ttl),
    updated = @lockwright_now
WHERE name = :name AND (@lockwright_old OR @lockwright_own);

INSERT INTO {tombstone} (token, until_us)
SELECT :from, @lockwright_now + :tombstone FROM {meta} WHERE @lockwright_old
ON DUPLICATE KEY UPDATE until_us = GREATEST({tombstone}.until_us, VALUES(until_us));

SELECT name, token, identity, mode, fence, 1, expires, broken, FALSE, CAST(@lockwright_now AS SIGNED),
       permits, size
FROM {beside}
WHERE name = :name AND token = :token AND (@lockwright_old OR @lockwright_own);

COMMIT;
