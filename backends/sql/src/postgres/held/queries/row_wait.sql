-- Returns a fifth row if the lock was acquired. Until then the idle timeout is at most five
-- seconds, so that a dead writer's barrier soon opens.
BEGIN;
SELECT set_config('idle_session_timeout', least(:ttl_ms, 5000)::text, false),
       set_config('idle_in_transaction_session_timeout', least(:ttl_ms, 5000)::text, false),
       set_config('application_name', {mark}, false);
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true);
SELECT {close_barrier};
SELECT set_config('lock_timeout', {rest}, true);
SELECT name FROM {row} WHERE name = :name FOR UPDATE;
SET idle_session_timeout = :ttl_ms;
SET idle_in_transaction_session_timeout = :ttl_ms;
