-- Returns whether another session may hold the lock for the same claim, and whether the row to lock
-- exists.
ROLLBACK;
SELECT NOT pg_try_advisory_xact_lock(:claim), EXISTS (SELECT FROM {row} WHERE name = :name);
