-- All of them: a session that is used again must hold nothing.
SELECT unlocked, set_config('application_name', 'lockwright/idle', false),
       pg_advisory_unlock_all()::text
FROM (SELECT pg_advisory_unlock({key}) AS unlocked) AS done;
