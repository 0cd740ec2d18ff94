COMMIT;
-- pg_advisory_unlock_all opens the barrier.
SELECT true, set_config('application_name', 'lockwright/idle', false),
       set_config('idle_session_timeout', '60s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       pg_advisory_unlock_all()::text;
