-- A joint session has the claim's lock. Any other session has the claim's mark.
SELECT pid::bigint, false FROM pg_stat_get_activity(NULL) AS activity
WHERE application_name = {mark}
  AND datid = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL
SELECT locks.pid::bigint, true FROM pg_locks AS locks
WHERE '{kind}' = 'session' AND {claim_in_joint_session};
