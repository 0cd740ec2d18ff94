-- A reader is rejected while a writer holds the barrier, or while another session reads for this
-- claim. Returns what session_try.sql returns.
SELECT CASE WHEN NOT pg_try_advisory_xact_lock(:claim) THEN 'same'
            WHEN NOT pg_try_advisory_xact_lock_shared({barrier}) THEN 'busy'
            WHEN NOT pg_try_advisory_xact_lock_shared(:key) THEN 'busy'
            WHEN :ttl_ms > 0 AND set_config('idle_session_timeout', :ttl_ms::text, false) = '' THEN NULL
            ELSE concat(nextval('{hold_fence}'), pg_advisory_lock(:claim),
                        pg_advisory_lock_shared(:key))
       END;
