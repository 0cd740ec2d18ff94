SELECT pg_terminate_backend(locks.pid, 2000)
FROM pg_locks AS locks CROSS JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity
WHERE locks.pid = :session AND {is_advisory} AND objsubid = 1 AND granted AND {lock_key} = {key}
  AND activity.application_name NOT IN ('{own}', '{joint}');
