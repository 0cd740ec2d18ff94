-- Blocks for a slice. When that is over everything is as it was before: it is one transaction.
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false),
       set_config('lock_timeout', :slice_ms::text, true),
       set_config('application_name', {mark}, false);
SELECT pg_advisory_lock({key})::text;
