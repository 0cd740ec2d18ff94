-- Waits for the claim's lock, so that only one session reads for a claim, then for the
-- barrier, then for the name's lock. Sets the TTL first, because a lock may be granted just before the wait times
-- out, and outlives the transaction. Returns what session_try.sql returns.
BEGIN;
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false);
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true);
SELECT pg_advisory_lock(:claim)::text;
SELECT set_config('lock_timeout', {rest}, true);
SELECT pg_advisory_xact_lock_shared({barrier})::text;
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', {rest}, true);
SELECT pg_advisory_lock_shared(:key)::text;
SELECT nextval('{hold_fence}')::text;
COMMIT;
