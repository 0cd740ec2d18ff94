-- One page of held names.
-- :first, :last, :after (or NULL), :limit
-- Answers: name, token, identity, mode, fence, fences, expires, broken, waiting, now
SELECT name, token, identity, mode, fence, fences, expires, broken, FALSE, {now}
FROM {lease}
WHERE name >= :first AND (:after IS NULL OR name > :after) AND name <= :last
  AND token IS NOT NULL AND expires > {now}
ORDER BY name
LIMIT :limit;
