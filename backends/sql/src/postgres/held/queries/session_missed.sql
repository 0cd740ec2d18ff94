-- Releases the lock, which may have been granted just before the statement timed out. The barrier
-- stays closed.
SELECT false, count(pg_advisory_unlock(:key)) FROM pg_locks
WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid = 1 AND granted;
