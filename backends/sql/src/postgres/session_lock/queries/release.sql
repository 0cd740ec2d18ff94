/* session_unlock */
-- Releases all locks, because a reused session must have none.
SELECT CASE WHEN pg_advisory_unlock(:key) THEN pg_advisory_unlock_all()::text = '' ELSE false END,
       CASE WHEN :is_reset THEN set_config('idle_session_timeout', '60s', false) END;

/* session_part */
SELECT pg_advisory_unlock(:key), pg_advisory_unlock(:claim);

/* session_shared_unlock */
DELETE FROM {reader} WHERE kind = 'session' AND name = :name AND token = :token;
SELECT unlocked, set_config('idle_session_timeout', '60s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       pg_advisory_unlock_all()::text
FROM (SELECT pg_advisory_unlock_shared(:key) AS unlocked) AS done;

/* row_unlock */
ROLLBACK;

/* row_shared_unlock */
-- The claim's lock goes first, because a session with that lock counts as a reader.
SELECT pg_advisory_unlock_all()::text;
COMMIT;
SELECT set_config('idle_session_timeout', '60s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false);
DELETE FROM {reader} WHERE kind = 'row' AND name = :name AND token = :token;
