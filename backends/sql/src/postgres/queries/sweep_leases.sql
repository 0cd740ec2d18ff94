WITH part AS MATERIALIZED (
    SELECT name FROM {lease} WHERE name > :after ORDER BY name LIMIT :limit
), idle AS MATERIALIZED (
    SELECT lease.name FROM {lease} AS lease
    WHERE lease.name IN (SELECT name FROM part)
      AND greatest(lease.updated, CASE WHEN lease.token IS NULL THEN 0 ELSE lease.expires END)
              < {now} - :idle
      AND lease.fence + lease.fences - 1 <= (SELECT floor FROM {meta})
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {lease} AS lease USING idle WHERE lease.name = idle.name RETURNING 1
)
SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM part), (SELECT max(name) FROM part)
