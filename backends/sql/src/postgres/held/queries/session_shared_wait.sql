-- The same for a reader: first it waits, with nothing in its hands, until the gate is open. The locks
-- aren't part of the transaction, and may have been granted in the last moment: so their TTL is there
-- before. The claim's own comes first: two sessions could read for one claim.
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
