-- Releases the lock, which may have been granted just before the statement timed out. The session
-- keeps the barrier and the claim's lock. Returns the first column of missed.sql.
SELECT false, count(pg_advisory_unlock(:key)) FROM pg_locks AS locks
WHERE locks.pid = pg_backend_pid() AND {is_advisory} AND objsubid = 1 AND granted AND {lock_key} = :key;
