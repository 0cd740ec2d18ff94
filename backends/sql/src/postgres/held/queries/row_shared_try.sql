-- A reader is rejected while the barrier is closed, or while another session has the claim's own
-- lock.
SELECT name,
       set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false),
       set_config('application_name', {mark}, false)
FROM {row} WHERE name = :name
  AND (SELECT CASE WHEN pg_try_advisory_lock_shared({barrier})
                   THEN pg_advisory_unlock_shared({barrier}) ELSE false END)
  AND pg_try_advisory_xact_lock({claim})
FOR SHARE SKIP LOCKED;
