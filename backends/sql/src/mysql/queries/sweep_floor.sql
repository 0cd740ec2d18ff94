-- Raises the floor to the highest fence of the rows that may go, of the next ones by name.
-- :after, :idle, :limit
UPDATE {meta} AS meta
JOIN (
    SELECT MAX(part.fence + part.fences - 1) AS fence
    FROM (SELECT * FROM {lease} WHERE name > :after ORDER BY name LIMIT :limit) AS part
    WHERE GREATEST(part.updated, IF(part.token IS NULL, 0, part.expires)) < {now} - :idle
) AS idle
SET meta.floor = idle.fence
WHERE idle.fence > meta.floor;
