-- Closes the barrier and waits. If the lock was acquired, returns a fifth row: what row_wait.sql
-- returns. Until then the idle timeout is at most five seconds, so that a dead writer's barrier soon
-- opens.
BEGIN;
SELECT set_config('idle_session_timeout', least(:ttl_ms, 5000)::text, false),
       set_config('idle_in_transaction_session_timeout', least(:ttl_ms, 5000)::text, false);
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true), pg_advisory_xact_lock(:claim)::text,
       set_config('lock_timeout', {rest}, true);
SELECT {close_barrier};
SELECT set_config('lock_timeout', {rest}, true);
WITH locked AS MATERIALIZED (SELECT name FROM {row} WHERE name = :name FOR UPDATE)
SELECT nextval('{hold_fence}'), {waited_us} FROM locked;
SET idle_session_timeout = :ttl_ms;
SET idle_in_transaction_session_timeout = :ttl_ms;
