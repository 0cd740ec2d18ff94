DELETE FROM {reader} WHERE kind = 'session' AND name = :name AND token = :token;
SELECT unlocked, set_config('idle_session_timeout', '60s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       pg_advisory_unlock_all()::text
FROM (SELECT pg_advisory_unlock_shared(:key) AS unlocked) AS done;
