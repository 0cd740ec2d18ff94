-- The row of a name.
-- :name
-- Answers: name, token, identity, mode, fence, fences, expires, broken, waiting, now
SELECT name, token, identity, mode, fence, fences, expires, broken, FALSE, {now}
FROM {lease}
WHERE name = :name;
