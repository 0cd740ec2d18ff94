-- Blocks for a slice. When that is over the settings are as they were before: it is one transaction.
-- The lock isn't part of it, and may have been granted in the last moment.
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false),
       set_config('lock_timeout', :slice_ms::text, true),
       set_config('application_name', {mark}, false);
SELECT pg_advisory_lock({key})::text;
