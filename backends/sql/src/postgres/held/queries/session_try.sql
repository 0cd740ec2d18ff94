-- Sets the TTL and the mark only with the lock. Returns whether the lock was acquired, and whether
-- the claim's token is recorded.
SELECT locked,
       CASE WHEN locked THEN false
            ELSE EXISTS (SELECT FROM {hold}
                         WHERE kind = 'session' AND name = :name AND token = :token) END,
       set_config('idle_session_timeout', CASE WHEN locked THEN :ttl_ms::text ELSE '60s' END, false),
       set_config('idle_in_transaction_session_timeout', CASE WHEN locked THEN :ttl_ms::text ELSE '60s' END, false),
       set_config('application_name', CASE WHEN locked THEN {mark} ELSE 'lockwright/idle' END, false)
FROM (SELECT pg_try_advisory_lock({key}) AS locked) AS tried;
