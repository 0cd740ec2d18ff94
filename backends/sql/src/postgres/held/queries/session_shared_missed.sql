-- After a reader's wait in vain: it may have been granted in the last moment. Answers whether the
-- claim's token was written down.
ROLLBACK;
SELECT EXISTS (SELECT FROM {reader}
               WHERE kind = 'session' AND name = :name AND token = :token),
       set_config('application_name', 'lockwright/idle', false),
       pg_advisory_unlock_all()::text;
