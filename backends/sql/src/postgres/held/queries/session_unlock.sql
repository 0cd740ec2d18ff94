-- Releases everything, because a reused session must hold nothing.
SELECT unlocked, set_config('idle_session_timeout', '60s', false), pg_advisory_unlock_all()::text
FROM (SELECT pg_advisory_unlock(:key) AS unlocked) AS done;
