SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_get_activity(:session::int) AS activity
WHERE application_name = {mark};
