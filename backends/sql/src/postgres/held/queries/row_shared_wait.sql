-- Returns a fifth row, the fence, if the lock was acquired.
BEGIN;
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false);
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true), pg_advisory_lock(:claim)::text;
SELECT set_config('lock_timeout', {rest}, true), pg_advisory_xact_lock_shared({barrier})::text;
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', {rest}, true);
WITH locked AS MATERIALIZED (SELECT name FROM {row} WHERE name = :name FOR SHARE)
SELECT nextval('{hold_fence}') FROM locked;
