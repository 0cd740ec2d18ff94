SELECT pid::bigint FROM pg_stat_get_activity(NULL) AS activity
WHERE application_name = {mark}
  AND datid = (SELECT oid FROM pg_database WHERE datname = current_database());
