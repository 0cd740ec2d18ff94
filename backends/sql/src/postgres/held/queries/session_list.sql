WITH locks AS MATERIALIZED (
    SELECT pid, (classid::bigint << 32) | objid::bigint AS key, mode = 'ShareLock' AS shared
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
), sessions AS MATERIALIZED (
    SELECT locks.pid, activity.state, activity.state_change,
           activity.application_name = '{joint}' AS is_joint,
           CASE WHEN activity.application_name LIKE 'lockwright/%/%'
                THEN split_part(activity.application_name, '/', 2) END AS token
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
SELECT last.name, holding.pid::bigint,
       CASE WHEN NOT holding.is_joint THEN holding.token
            WHEN (holding.pid, last.key # {digits_of_token}) IN (SELECT pid, key FROM locks)
            THEN held.token END,
       held.token, held.identity, last.fence, {left}, held.broken, 0::bigint, locks.shared
FROM names AS last
JOIN locks ON locks.key = last.key
JOIN sessions AS holding ON holding.pid = locks.pid
LEFT JOIN LATERAL (
    SELECT token, identity, ttl_ms, broken FROM {hold}
    WHERE kind = 'session' AND name = last.name AND NOT locks.shared
    UNION ALL
    SELECT token, identity, ttl_ms, broken FROM {reader}
    WHERE kind = 'session' AND name = last.name AND token = holding.token AND locks.shared
) AS held ON true
ORDER BY last.name, holding.pid
LIMIT :limit;
