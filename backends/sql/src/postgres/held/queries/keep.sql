-- The process id shows a pooler that has put another session in the place of ours.
SELECT pg_backend_pid()::bigint,
       EXISTS (SELECT FROM {held}
               WHERE kind = '{kind}' AND name = :name AND token = :token AND broken IS NOT NULL);
