-- The row of a name.
-- :name
-- Answers: name, token, identity, mode, fence, fences, expires, broken, waiting, now
SELECT name, token, identity, mode, fence, fences::bigint, expires, broken, waiting > now, now
FROM {lease}
CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
WHERE name = :name
