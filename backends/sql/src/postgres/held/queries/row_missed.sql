-- Returns whether the row to lock exists, and whether another session may hold it for the same claim.
ROLLBACK;
SELECT EXISTS (SELECT FROM {row} WHERE name = :name),
       EXISTS (SELECT FROM pg_stat_get_activity(NULL)
               WHERE application_name = :mark AND pid <> pg_backend_pid());
