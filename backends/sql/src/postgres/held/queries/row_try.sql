-- Runs prepared in a new transaction. Its end restores the settings. Returns the fence if
-- the lock was acquired.
WITH locked AS MATERIALIZED (
    SELECT name FROM {row} WHERE name = :name FOR UPDATE SKIP LOCKED
)
SELECT nextval('{hold_fence}'),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, true),
       set_config('application_name', :mark, true)
FROM locked;
