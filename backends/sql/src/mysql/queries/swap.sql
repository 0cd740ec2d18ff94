-- Assigns `token` after the columns that depend on its old value.
BEGIN;

UPDATE {lease} SET
    fence = IF(token = :from, GREATEST(fence + fences, {now}), fence),
    fences = IF(token = :from, 1, fences),
    tombstones = IF(token = :from, RIGHT(CONCAT(tombstones, ' ', :from), 16 * 33), tombstones),
    token = :token, identity = :identity, ttl = :ttl, expires = {now} + :ttl, updated = {now}
WHERE name = :name AND token IN (:from, :token) AND expires > {now} AND broken IS NULL
  AND LOCATE(:token, tombstones) = 0
  AND NOT EXISTS (SELECT 1 FROM {tombstone} AS tombstone WHERE tombstone.token = :token);

INSERT INTO {tombstone} (token, until_us)
SELECT :from, updated + :tombstone FROM {lease}
WHERE name = :name AND token = :token AND ROW_COUNT() > 0
ON DUPLICATE KEY UPDATE until_us = GREATEST({tombstone}.until_us, VALUES(until_us));

SELECT name, token, identity, mode, fence, fences, expires, broken, FALSE, updated
FROM {lease} WHERE name = :name AND token = :token AND expires > {now} AND broken IS NULL;

COMMIT;
