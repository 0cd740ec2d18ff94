-- Releases everything, because a reused session must hold nothing.
SELECT CASE WHEN pg_advisory_unlock(:key) THEN pg_advisory_unlock_all()::text = '' ELSE false END,
       CASE WHEN :is_reset THEN set_config('idle_session_timeout', '60s', false) END;
