-- Runs in a new transaction. Returns a row if the lock was acquired.
SELECT name,
       set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false),
       set_config('application_name', {mark}, false)
FROM {row} WHERE name = :name FOR UPDATE SKIP LOCKED;
