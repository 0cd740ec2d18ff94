-- The locks may have been granted at the last moment, so all are released. Returns whether the
-- record of a reader has the claim's token.
ROLLBACK;
SELECT EXISTS (SELECT FROM {reader}
               WHERE kind = 'session' AND name = :name AND token = :token),
       set_config('application_name', 'lockwright/idle', false),
       pg_advisory_unlock_all()::text;
