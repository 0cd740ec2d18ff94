UPDATE {meta} AS meta SET floor = idle.fence
FROM (
    SELECT max(fence + fences - 1) AS fence
    FROM (SELECT * FROM {lease} WHERE name > :after ORDER BY name LIMIT :limit) AS part
    WHERE greatest(updated, CASE WHEN token IS NULL THEN 0 ELSE expires END)
              < {now} - :idle
) AS idle
WHERE idle.fence > meta.floor
