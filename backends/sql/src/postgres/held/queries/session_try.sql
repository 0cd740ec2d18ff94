-- One try, with the TTL set before it. The mark is only set together with the lock.
-- Last row: locked, whether the row bears our token.
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false);
SELECT locked,
       EXISTS (SELECT FROM {hold}
               WHERE kind = 'session' AND name = :name AND token = :token),
       set_config('application_name', CASE WHEN locked THEN {mark} ELSE 'lockwright/idle' END, false)
FROM (SELECT pg_try_advisory_lock({key}) AS locked) AS tried;
