-- One page of held names.
-- :first, :last, :after (or NULL), :limit
-- Answers: name, token, identity, mode, fence, fences, expires, broken, waiting, now
SELECT name, token, identity, mode, fence, fences::bigint, expires, broken, waiting > now, now
FROM {lease}
CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
WHERE name >= greatest(:first, :after COLLATE "C") AND name <= :last
  AND name IS DISTINCT FROM :after
  AND token IS NOT NULL AND expires > now
ORDER BY name
LIMIT :limit
