-- Runs prepared in a new transaction. Its end restores the setting. Returns the fence if
-- the lock was acquired.
WITH locked AS MATERIALIZED (
    SELECT name FROM {row} WHERE name = :name AND pg_try_advisory_xact_lock(:claim)
    FOR UPDATE SKIP LOCKED
)
SELECT nextval('{hold_fence}'),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, true)
FROM locked;
