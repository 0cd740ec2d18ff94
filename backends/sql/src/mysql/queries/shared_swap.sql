SELECT MAX(lease.fence), MAX(lease.fences), MAX(IF(holder.token = :from, holder.fence, NULL)),
       COALESCE(MAX(holder.token = :from), 0), COALESCE(MAX(holder.token = :token), 0)
INTO @lockwright_fence, @lockwright_fences, @lockwright_epoch, @lockwright_old, @lockwright_own
FROM {lease} AS lease
JOIN {shared_holder} AS holder ON holder.name = lease.name AND holder.token IN (:from, :token)
WHERE lease.name = :name AND lease.mode = :mode AND lease.token IS NOT NULL
  AND lease.expires > @lockwright_now AND holder.expires > @lockwright_now AND holder.broken IS NULL
  AND holder.mode = :mode AND holder.permits = :permits AND holder.size = :size
  AND LOCATE(:token, lease.tombstones) = 0
  AND NOT EXISTS (SELECT 1 FROM {tombstone} AS tombstone WHERE tombstone.token = :token);

SET @lockwright_old = @lockwright_old AND NOT @lockwright_own;

SET @lockwright_epoch = IF(:size = 0, @lockwright_epoch,
                           GREATEST(@lockwright_fence + @lockwright_fences, @lockwright_now));

UPDATE {shared_holder} SET
    token = :token, identity = :identity, fence = @lockwright_epoch, ttl = :ttl,
    expires = @lockwright_now + :ttl, updated = @lockwright_now
WHERE name = :name AND token = :from AND @lockwright_old;

UPDATE {shared_holder} SET ttl = :ttl, expires = @lockwright_now + :ttl, updated = @lockwright_now
WHERE name = :name AND token = :token AND @lockwright_own;

UPDATE {lease} SET
    fence = IF(@lockwright_old, GREATEST(fence, @lockwright_epoch), fence),
    expires = GREATEST(expires, @lockwright_now + :ttl), updated = @lockwright_now
WHERE name = :name AND (@lockwright_old OR @lockwright_own);

INSERT INTO {tombstone} (token, until_us)
SELECT :from, @lockwright_now + :tombstone FROM {meta} WHERE @lockwright_old
ON DUPLICATE KEY UPDATE until_us = GREATEST({tombstone}.until_us, VALUES(until_us));

SELECT name, token, identity, mode, fence, 1, expires, broken, FALSE, CAST(@lockwright_now AS SIGNED),
       permits, size
FROM {shared_holder} WHERE name = :name AND token = :token AND (@lockwright_old OR @lockwright_own);

COMMIT;
