-- The claim's lock is released first: with it and the transaction of `DELETE`, the session would
-- count as reading.
SELECT pg_advisory_unlock_all()::text;
COMMIT;
SELECT set_config('idle_session_timeout', '60s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false);
DELETE FROM {reader} WHERE kind = 'row' AND name = :name AND token = :token;
