WITH locks AS MATERIALIZED (
    SELECT pid, mode = 'ShareLock' AS shared, {lock_key} AS key
    FROM pg_locks AS locks WHERE {is_advisory} AND objsubid = 1 AND granted
), sessions AS MATERIALIZED (
    SELECT locks.pid, activity.state, activity.state_change
    FROM (SELECT DISTINCT pid FROM locks) AS locks
    LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON true
), names AS MATERIALIZED (
    -- CASE keeps the planner from a nested loop, as it expects few locks.
    SELECT name, fence, key
    FROM (SELECT held.name, held.fence, {key_of_held} AS key FROM {hold} AS held
          WHERE held.kind = 'session'
            AND (held.name > :from OR :inclusive AND held.name = :from)
          OFFSET 0) AS held
    WHERE CASE WHEN key IN (SELECT key FROM locks) THEN true END
    ORDER BY name LIMIT :limit
)
SELECT last.name, holding.pid::bigint, held.token, held.token, held.identity, last.fence, {left},
       held.broken, 0::bigint, locks.shared
FROM names AS last
JOIN locks ON locks.key = last.key
JOIN sessions AS holding ON holding.pid = locks.pid
LEFT JOIN ({records}) AS held
     ON held.name = last.name AND held.session = holding.pid AND held.shared = locks.shared
    AND CASE WHEN (holding.pid, {claim_of_held}) IN (SELECT pid, key FROM locks) THEN true END
ORDER BY last.name, holding.pid
LIMIT :limit;
