-- A reader is rejected while the barrier is closed, or while another session has the claim's own
-- lock.
SELECT locked,
       CASE WHEN locked THEN false
            ELSE EXISTS (SELECT FROM {reader}
                         WHERE kind = 'session' AND name = :name AND token = :token) END,
       set_config('idle_session_timeout', CASE WHEN locked THEN :ttl_ms::text ELSE '60s' END, false),
       set_config('idle_in_transaction_session_timeout', CASE WHEN locked THEN :ttl_ms::text ELSE '60s' END, false),
       set_config('application_name', CASE WHEN locked THEN {mark} ELSE 'lockwright/idle' END, false)
FROM (SELECT CASE WHEN NOT pg_try_advisory_xact_lock_shared({barrier}) THEN false
                  WHEN NOT pg_try_advisory_lock({claim}) THEN false
                  WHEN pg_try_advisory_lock_shared({key}) THEN true
                  ELSE NOT pg_advisory_unlock({claim}) END AS locked) AS tried;
