-- As session_wait, for a reader, which first waits without any lock until the gate is open. Session locks may
-- be granted at the last moment and outlive the transaction, so the TTL is set before. The claim's own lock
-- comes first, as two sessions could read for one claim.
BEGIN;
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false),
       set_config('lock_timeout', :slice_ms::text, true),
       set_config('application_name', {mark}, false);
SELECT pg_advisory_xact_lock_shared({gate})::text;
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', {rest}, true);
SELECT pg_advisory_lock({claim})::text;
SELECT pg_advisory_lock_shared({key})::text;
COMMIT;
