SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_get_activity(:session::int) AS activity
WHERE application_name = {mark}
   OR '{kind}' = 'session' AND EXISTS (SELECT FROM pg_locks AS locks
                                       WHERE locks.pid = activity.pid AND {claim_in_joint_session});
