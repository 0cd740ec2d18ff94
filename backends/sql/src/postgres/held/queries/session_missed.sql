-- Releases the lock, which may have been granted just before the statement timed out. The barrier
-- stays closed, and the claim's lock stays.
SELECT false, count(pg_advisory_unlock(:key)) FROM pg_locks AS locks
WHERE locks.pid = pg_backend_pid() AND {is_lock} AND objsubid = 1 AND granted AND {number} = :key;
