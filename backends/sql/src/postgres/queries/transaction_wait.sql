-- Blocks for a slice. An unsuccessful wait is rolled back to the savepoint, and lock_timeout with it.
-- Otherwise lock_timeout is restored.
SAVEPOINT lockwright;
SELECT set_config('lockwright.lock_timeout', current_setting('lock_timeout'), true),
       set_config('lock_timeout', :slice_ms::text, true);
SELECT pg_advisory_xact_lock({key})::text;
SELECT set_config('lock_timeout', current_setting('lockwright.lock_timeout'), true);
RELEASE SAVEPOINT lockwright;
