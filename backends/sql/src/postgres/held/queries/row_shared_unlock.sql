-- The mark is removed first, because a reader with a mark counts as reading.
SELECT set_config('application_name', 'lockwright/idle', false),
       set_config('idle_session_timeout', '60s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false);
COMMIT;
DELETE FROM {reader} WHERE kind = 'row' AND name = :name AND token = :token;
SELECT true, pg_advisory_unlock_all()::text;
