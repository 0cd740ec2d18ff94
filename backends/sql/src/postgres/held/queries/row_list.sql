WITH claims AS MATERIALIZED (
    SELECT pid, {number} AS key FROM pg_locks AS locks WHERE {is_lock} AND objsubid = 1 AND granted
)
SELECT held.name, holding.pid::bigint, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0::bigint, held.shared
FROM ({holders}) AS held
JOIN LATERAL pg_stat_get_activity(held.session::int) AS holding ON true
WHERE (held.name > :from OR :inclusive AND held.name = :from)
  AND (held.session, {claim_of_held}) IN (SELECT pid, key FROM claims)
ORDER BY held.name, holding.pid
LIMIT :limit;
