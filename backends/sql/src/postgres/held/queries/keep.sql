-- The process id reveals a pooler that has switched sessions.
SELECT pg_backend_pid()::bigint,
       EXISTS (SELECT FROM {held}
               WHERE kind = '{kind}' AND name = :name AND token = :token AND broken IS NOT NULL);
