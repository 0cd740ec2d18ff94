SELECT locks.pid::bigint, activity.application_name = '{joint}'
FROM pg_locks AS locks CROSS JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity
WHERE {is_claim_lock};
