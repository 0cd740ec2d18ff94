-- A second row if the lock was got; if there is none, there is nothing to lock yet. What is set is
-- in force while it waits.
BEGIN;
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false),
       set_config('lock_timeout', :slice_ms::text, true),
       set_config('application_name', {mark}, false);
SELECT name FROM {row} WHERE name = :name FOR UPDATE;
