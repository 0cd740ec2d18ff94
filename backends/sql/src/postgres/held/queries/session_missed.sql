-- Releases the locks of the claim and of the name, which may have been granted just before the
-- statement timed out. The barrier stays closed.
SELECT false, count(pg_advisory_unlock({number})) FROM pg_locks AS locks
WHERE locks.pid = pg_backend_pid() AND {is_lock} AND objsubid = 1 AND granted;
