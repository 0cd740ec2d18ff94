-- The server looks for a deadlock after deadlock_timeout, so the statement waits longer, if the
-- limit allows. The last set_config, or a rollback to the savepoint, restores lock_timeout.
SAVEPOINT lockwright;
SELECT set_config('lockwright.lock_timeout', current_setting('lock_timeout'), true),
       set_config('lock_timeout', greatest(:slice_ms, least(:left_ms, setting::bigint + 1000))::text, true)
FROM pg_settings WHERE name = 'deadlock_timeout';
SELECT pg_advisory_xact_lock({key})::text;
SELECT set_config('lock_timeout', current_setting('lockwright.lock_timeout'), true);
RELEASE SAVEPOINT lockwright;
