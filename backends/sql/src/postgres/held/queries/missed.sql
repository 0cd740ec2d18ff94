-- Returns whether another session may hold the lock for the same claim, and whether the row to lock
-- exists.
ROLLBACK;
SELECT EXISTS (SELECT FROM pg_locks AS locks WHERE locks.pid <> pg_backend_pid() AND {is_claim}),
       EXISTS (SELECT FROM {row} WHERE name = :name);
