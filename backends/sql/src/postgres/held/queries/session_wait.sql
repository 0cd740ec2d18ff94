-- Waits for the lock. Returns what session_try.sql returns, and how long the server waited in µs.
-- Returns false at once if another session has the claim, or the name may have readers: then
-- session_wait_for_readers.sql waits.
SELECT fence IS NOT NULL, NOT claimed, fence,
       CASE WHEN fence IS NOT NULL THEN pg_advisory_lock(:claim)::text END,
       CASE WHEN fence IS NOT NULL THEN pg_advisory_lock(:key)::text END, {waited_us}
FROM (
    SELECT claimed,
           CASE WHEN claimed AND NOT has_readers AND pg_advisory_xact_lock(:key)::text IS NOT NULL
                THEN nextval('{hold_fence}') END AS fence
    FROM (SELECT {has_readers} AS has_readers, pg_try_advisory_xact_lock(:claim) AS claimed,
                 set_config('idle_session_timeout', :ttl_ms::text, false),
                 set_config('lock_timeout', :slice_ms::text, true)
          OFFSET 0) AS asked
    OFFSET 0
) AS tried;
