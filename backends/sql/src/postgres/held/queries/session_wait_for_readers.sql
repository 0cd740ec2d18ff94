-- Closes the barrier and waits. Until the session has the lock, its idle timeout is at most five
-- seconds, so that a dead writer's barrier soon opens. The last statement returns what
-- session_wait.sql returns.
BEGIN;
SELECT set_config('idle_session_timeout', least(:ttl_ms, 5000)::text, false);
COMMIT;
SELECT set_config('lock_timeout', :slice_ms::text, true);
SELECT {close_barrier};
SELECT set_config('lock_timeout', {rest}, true);
SELECT pg_advisory_xact_lock(:key)::text;
SET idle_session_timeout = :ttl_ms;
SELECT concat(nextval('{hold_fence}'), pg_advisory_lock(:key)), {waited_us};
