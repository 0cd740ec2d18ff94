-- A rollback to the savepoint restores lock_timeout. After success, the last set_config does.
SAVEPOINT lockwright;
SELECT set_config('lockwright.lock_timeout', current_setting('lock_timeout'), true),
       set_config('lock_timeout', :slice_ms::text, true);
SELECT pg_advisory_xact_lock({key})::text;
SELECT set_config('lock_timeout', current_setting('lockwright.lock_timeout'), true);
RELEASE SAVEPOINT lockwright;
