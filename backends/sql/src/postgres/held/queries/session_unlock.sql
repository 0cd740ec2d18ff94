SELECT unlocked, set_config('application_name', 'lockwright/idle', false)
FROM (SELECT pg_advisory_unlock({key}) AS unlocked) AS done;
