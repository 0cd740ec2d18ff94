WITH claims AS MATERIALIZED (
    SELECT pid, {lock_key} AS key FROM pg_locks AS locks WHERE {is_advisory} AND objsubid = 1 AND granted
)
SELECT held.name, holding.pid::bigint, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0::bigint, held.shared
FROM ({records}) AS held
JOIN LATERAL pg_stat_get_activity(held.session::int) AS holding ON true
WHERE (held.name > :from OR :inclusive AND held.name = :from)
  -- CASE keeps the planner from a nested loop, as it expects few locks.
  AND CASE WHEN (held.session, {claim_of_held}) IN (SELECT pid, key FROM claims) THEN true END
ORDER BY held.name, holding.pid
LIMIT :limit;
