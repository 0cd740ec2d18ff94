-- A reader is rejected while a writer holds the barrier, or while another session reads for this
-- claim. Returns what row_try.sql returns. The claim's lock is session-level, so that it can
-- be released before the row's.
WITH locked AS MATERIALIZED (
    SELECT name FROM {row} WHERE name = :name
      AND (SELECT CASE WHEN pg_try_advisory_lock_shared({barrier})
                       THEN pg_advisory_unlock_shared({barrier}) ELSE false END)
      AND pg_try_advisory_lock(:claim)
    FOR SHARE SKIP LOCKED
), timed AS MATERIALIZED (
    SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
           set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false)
    FROM locked
)
SELECT nextval('{hold_fence}') FROM timed;
