SELECT pg_terminate_backend(locks.pid, 2000) FROM pg_locks AS locks
WHERE locks.pid = :session AND {is_claim_lock};
