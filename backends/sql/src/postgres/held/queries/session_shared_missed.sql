-- Releases all locks, because the last one may have been granted just before the wait timed out.
-- Returns whether the claim's token is recorded.
ROLLBACK;
SELECT EXISTS (SELECT FROM {reader}
               WHERE kind = 'session' AND name = :name AND token = :token),
       set_config('application_name', 'lockwright/idle', false),
       pg_advisory_unlock_all()::text;
