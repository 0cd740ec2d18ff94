WITH locks AS MATERIALIZED (
    SELECT pid, granted, objsubid, mode = 'ShareLock' AS shared, {lock_key} AS key
    FROM pg_locks AS locks WHERE {is_advisory}
), held AS MATERIALIZED (
    SELECT held.* FROM ({records}) AS held
    WHERE held.name = :name
      AND CASE WHEN (held.session, {claim_of_held}) IN (SELECT pid, key FROM locks WHERE granted)
               THEN true END
)
SELECT :name, holding.pid::bigint, held.token, held.token, held.identity, last.fence, {left},
       held.broken,
       -- Waiters at the barrier count too.
       (SELECT count(DISTINCT pid) FROM locks
        WHERE NOT granted AND key = CASE objsubid WHEN 1 THEN {key} ELSE {barrier_as_one} END),
       holding.shared
FROM (SELECT) AS once
LEFT JOIN LATERAL (
    SELECT locks.pid, locks.shared, activity.state, activity.state_change
    FROM locks LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON true
    WHERE locks.granted AND locks.objsubid = 1 AND locks.key = {key}
) AS holding ON true
LEFT JOIN {hold} AS last ON last.kind = 'session' AND last.name = :name
LEFT JOIN held ON held.session = holding.pid AND held.shared = holding.shared;
