-- The SELECT is separate, because an UPDATE locks the rows that it reads.
SELECT MAX(part.fence + part.fences - 1) INTO @lockwright_floor
FROM (SELECT * FROM {lease} WHERE name > :after ORDER BY name LIMIT :limit) AS part
WHERE GREATEST(part.updated, IF(part.token IS NULL, 0, part.expires)) < {now} - :idle;

UPDATE {meta} SET floor = @lockwright_floor WHERE floor < @lockwright_floor;
