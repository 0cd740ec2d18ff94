-- The connection id reveals a proxy that has switched sessions.
SELECT CONNECTION_ID(),
       IS_USED_LOCK({mark}) <=> CONNECTION_ID(),
       held.broken IS NOT NULL, COALESCE(held.released, 0)
FROM (SELECT 1 AS one) AS once
LEFT JOIN {held} AS held ON held.kind = 'row' AND held.name = :name AND held.token = :token
