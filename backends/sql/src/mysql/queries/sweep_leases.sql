-- Deletes the rows that may go, of the next ones by name.
-- :after, :idle, :limit
-- Answers: how many went, how many were looked at, the last one's name
SELECT COUNT(*), MAX(part.name) INTO @lockwright_seen, @lockwright_last
FROM (SELECT name FROM {lease} WHERE name > :after ORDER BY name LIMIT :limit) AS part;

DELETE FROM {lease}
WHERE name > :after AND name <= @lockwright_last
  AND GREATEST(updated, IF(token IS NULL, 0, expires)) < {now} - :idle
  AND fence + fences - 1 <= (SELECT floor FROM {meta});

SELECT ROW_COUNT(), CAST(@lockwright_seen AS SIGNED), @lockwright_last;
