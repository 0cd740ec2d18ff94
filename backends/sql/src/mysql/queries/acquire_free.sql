-- Answers with the fence as the last insert id. `fence` is assigned before `fences`, whose old
-- value it uses.
UPDATE {lease} SET
    fence = LAST_INSERT_ID(GREATEST(fence + fences, {now})), token = :token, identity = :identity,
    mode = 'exclusive', fences = :fences, ttl = :ttl, expires = {now} + :ttl, updated = {now},
    broken = NULL
WHERE name = :name AND (token IS NULL OR expires <= {now}) AND LOCATE(:token, tombstones) = 0
  AND NOT EXISTS (SELECT 1 FROM {tombstone} WHERE token = :token)
