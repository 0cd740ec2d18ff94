WITH locks AS MATERIALIZED (
    SELECT pid, granted, mode = 'ShareLock' AS shared FROM pg_locks
    WHERE locktype = 'advisory'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (objsubid = 1 AND (classid::bigint << 32) | objid::bigint = {key}
           -- Waiters at the barrier count too.
           OR objsubid = 2 AND NOT granted AND (classid::bigint << 32) | objid::bigint = {barrier_as_one})
)
SELECT :name, holding.pid::bigint,
       CASE WHEN NOT holding.is_joint THEN holding.token
            WHEN EXISTS (SELECT FROM pg_locks AS claim WHERE claim.pid = holding.pid
                           AND claim.locktype = 'advisory' AND claim.objsubid = 1
                           AND (claim.classid::bigint << 32) | claim.objid::bigint
                               = {key} # {digits_of_token}) THEN held.token END,
       held.token, held.identity, last.fence, {left}, held.broken,
       (SELECT count(DISTINCT pid) FROM locks WHERE NOT granted), holding.shared
FROM (SELECT) AS once
LEFT JOIN LATERAL (
    SELECT locks.pid, locks.shared, activity.state, activity.state_change,
           activity.application_name = '{joint}' AS is_joint,
           CASE WHEN activity.application_name LIKE 'lockwright/%/%'
                THEN split_part(activity.application_name, '/', 2) END AS token
    FROM locks LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON true
    WHERE locks.granted
) AS holding ON true
LEFT JOIN {hold} AS last ON last.kind = 'session' AND last.name = :name
LEFT JOIN LATERAL (
    SELECT token, identity, ttl_ms, broken FROM {hold}
    WHERE kind = 'session' AND name = :name AND NOT holding.shared
    UNION ALL
    SELECT token, identity, ttl_ms, broken FROM {reader}
    WHERE kind = 'session' AND name = :name AND token = holding.token AND holding.shared
) AS held ON true;
