-- Waits for the lock. Returns what session_try.sql returns, and how long the server waited in µs.
-- Returns `readers` at once if the name may have readers: then session_wait_for_readers.sql waits.
-- The session keeps the claim's lock for the next statement of the wait.
SELECT CASE WHEN NOT pg_try_advisory_lock(:claim) THEN 'same'
            WHEN set_config('idle_session_timeout', :ttl_ms::text, false) = '' THEN NULL
            WHEN set_config('lock_timeout', :slice_ms::text, true) = '' THEN NULL
            WHEN {has_readers} THEN 'readers'
            ELSE concat(pg_advisory_xact_lock(:key), nextval('{hold_fence}'), pg_advisory_lock(:key))
       END, {waited_us};
