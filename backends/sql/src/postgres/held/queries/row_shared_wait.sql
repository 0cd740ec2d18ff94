-- Returns a fifth row if the lock was acquired.
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true),
       set_config('application_name', {mark}, false);
SELECT pg_advisory_xact_lock_shared({barrier})::text;
COMMIT;
BEGIN;
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false),
       set_config('lock_timeout', {rest}, true),
       set_config('application_name', {mark}, false);
SELECT pg_advisory_xact_lock({claim})::text;
SELECT name FROM {row} WHERE name = :name FOR SHARE;
