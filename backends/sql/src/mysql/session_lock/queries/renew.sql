/* session_keep */
-- The connection id reveals a proxy that has switched sessions.
SELECT CONNECTION_ID(),
       IS_USED_LOCK(:mark) <=> CONNECTION_ID() AND IS_USED_LOCK(:key) <=> CONNECTION_ID(),
       held.broken IS NOT NULL, COALESCE(held.released, 0)
FROM (SELECT 1 AS one) AS once
LEFT JOIN {hold} AS held ON held.kind = 'session' AND held.name = :name AND held.token = :token

/* row_keep */
SELECT CONNECTION_ID(), IS_USED_LOCK(:mark) <=> CONNECTION_ID(),
       held.broken IS NOT NULL, COALESCE(held.released, 0)
FROM (SELECT 1 AS one) AS once
LEFT JOIN {held} AS held ON held.kind = 'row' AND held.name = :name AND held.token = :token
