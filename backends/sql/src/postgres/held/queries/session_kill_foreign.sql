-- Another program's session is never joint.
SELECT pg_terminate_backend(pid, 2000) FROM pg_locks
WHERE pid = :session AND locktype = 'advisory' AND objsubid = 1 AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND (classid::bigint << 32) | objid::bigint = {key}
  AND NOT EXISTS (SELECT FROM pg_stat_get_activity(:session::int) AS activity
                  WHERE activity.application_name = '{joint}');
