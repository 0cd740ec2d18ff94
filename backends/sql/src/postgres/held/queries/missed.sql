-- Rolls back. Returns whether another session may hold for the same claim, and, for the mode `row`,
-- whether the row exists.
ROLLBACK;
SELECT NOT pg_try_advisory_xact_lock(:claim), EXISTS (SELECT FROM {row} WHERE name = :name);
