WITH locks AS MATERIALIZED (
    SELECT pid, granted FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (classid::bigint << 32) | objid::bigint = {key}
)
SELECT :name, locks.pid::bigint,
       CASE WHEN activity.application_name LIKE 'lockwright/%/%'
            THEN split_part(activity.application_name, '/', 2) END,
       held.token, held.identity, held.fence, {left}, held.broken,
       (SELECT count(*) FROM locks WHERE NOT granted)
FROM (SELECT) AS once
LEFT JOIN locks ON locks.granted
LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON locks.pid IS NOT NULL
LEFT JOIN {hold} AS held ON held.kind = 'session' AND held.name = :name;
