-- Waits for the lock. Returns what session_try.sql returns, and how long the server waited in µs.
-- Returns false at once if the name may have readers; then session_wait_for_readers.sql waits.
SELECT fence IS NOT NULL, false, fence, {waited_us},
       pg_try_advisory_lock(:claim),
       CASE WHEN fence IS NOT NULL THEN pg_advisory_lock(:key)::text END
FROM (
    SELECT CASE WHEN NOT has_readers AND pg_advisory_xact_lock(:key)::text IS NOT NULL
                THEN nextval('{hold_fence}') END AS fence
    FROM (SELECT {has_readers} AS has_readers,
                 set_config('idle_session_timeout', :ttl_ms::text, false),
                 set_config('application_name', :mark, false),
                 set_config('lock_timeout', :slice_ms::text, true)
          OFFSET 0) AS asked
    OFFSET 0
) AS tried;
