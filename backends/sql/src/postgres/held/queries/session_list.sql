WITH locks AS MATERIALIZED (
    SELECT pid, (classid::bigint << 32) | objid::bigint AS key, mode = 'ShareLock' AS shared
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT last.name, holding.pid::bigint, holding.token, held.token, held.identity, last.fence, {left},
       held.broken, 0::bigint, holding.shared
FROM (SELECT held.name, held.fence, {key_of_held} AS key FROM {hold} AS held
      WHERE held.kind = 'session'
        AND (held.name > :from OR :inclusive AND held.name = :from)) AS last
JOIN (
    SELECT locks.key, locks.pid, locks.shared, activity.state, activity.state_change,
           CASE WHEN activity.application_name LIKE 'lockwright/%/%'
                THEN split_part(activity.application_name, '/', 2) END AS token
    FROM locks LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON true
) AS holding ON holding.key = last.key
LEFT JOIN LATERAL (
    SELECT token, identity, ttl_ms, broken FROM {hold}
    WHERE kind = 'session' AND name = last.name AND NOT holding.shared
    UNION ALL
    SELECT token, identity, ttl_ms, broken FROM {reader}
    WHERE kind = 'session' AND name = last.name AND token = holding.token AND holding.shared
) AS held ON true
ORDER BY last.name, holding.pid
LIMIT :limit;
