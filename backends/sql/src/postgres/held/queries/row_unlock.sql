COMMIT;
SELECT true, set_config('application_name', 'lockwright/idle', false);
