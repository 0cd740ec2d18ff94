SELECT COUNT(*), MAX(part.name) INTO @lockwright_seen, @lockwright_last
FROM (SELECT name FROM {lease} WHERE name > :after ORDER BY name LIMIT :limit) AS part;

BEGIN;
SELECT JSON_ARRAYAGG(name) INTO @lockwright_old
FROM {lease} WHERE name > :after AND name <= @lockwright_last
  AND GREATEST(updated, IF(token IS NULL, 0, expires)) < {now} - :idle
  AND fence + fences - 1 <= (SELECT floor FROM {meta})
FOR UPDATE SKIP LOCKED;
DELETE lease FROM {old} STRAIGHT_JOIN {lease} AS lease ON lease.name = {old_name};
SELECT ROW_COUNT(), CAST(@lockwright_seen AS SIGNED), @lockwright_last;
COMMIT;
