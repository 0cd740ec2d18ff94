-- The server looks for a deadlock when a wait has lasted for deadlock_timeout, so the statement
-- waits longer, if the limit allows. A rollback to the savepoint restores lock_timeout. After
-- success, the last set_config restores it.
SAVEPOINT lockwright;
SELECT set_config('lockwright.lock_timeout', current_setting('lock_timeout'), true),
       set_config('lock_timeout', greatest(:slice_ms, least(:left_ms, setting::bigint + 1000))::text, true)
FROM pg_settings WHERE name = 'deadlock_timeout';
SELECT pg_advisory_xact_lock({key})::text;
SELECT set_config('lock_timeout', current_setting('lockwright.lock_timeout'), true);
RELEASE SAVEPOINT lockwright;
