WITH locks AS MATERIALIZED (
    SELECT pid, (classid::bigint << 32) | objid::bigint AS key FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT held.name, locks.pid::bigint,
       CASE WHEN activity.application_name LIKE 'lockwright/%/%'
            THEN split_part(activity.application_name, '/', 2) END,
       held.token, held.identity, held.fence, {left}, held.broken, 0::bigint
FROM {hold} AS held
JOIN locks ON locks.key = {key_of_held}
LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON true
WHERE held.kind = 'session'
  AND (held.name > :from OR :inclusive AND held.name = :from)
ORDER BY held.name, locks.pid
LIMIT :limit;
