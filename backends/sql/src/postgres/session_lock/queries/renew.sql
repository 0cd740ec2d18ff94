/* session_keep row_keep */
-- A changed process id reveals a pooler that has switched sessions. The second column is always
-- true, because a session keeps its locks.
SELECT pg_backend_pid()::bigint, true, held.broken IS NOT NULL, coalesce(held.released, false)
FROM (SELECT) AS once
LEFT JOIN {held} AS held ON kind = '{kind}' AND name = :name AND token = :token

/* shorten */
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false);
