-- Returns `same` if another session may hold the lock for the same claim, `busy` if it isn't free, or
-- the fence. The first locks end with the transaction, because a session's locks would outlive a
-- failed statement. They and the timeout precede `nextval`, which may block. `set_config` never
-- returns ''. If `:ttl_ms` is 0, the timeout is already set.
SELECT CASE WHEN NOT pg_try_advisory_xact_lock(:claim) THEN 'same'
            WHEN NOT pg_try_advisory_xact_lock(:key) THEN 'busy'
            WHEN :ttl_ms > 0 AND set_config('idle_session_timeout', :ttl_ms::text, false) = '' THEN NULL
            ELSE concat(nextval('{hold_fence}'), pg_advisory_lock(:claim), pg_advisory_lock(:key))
       END;
