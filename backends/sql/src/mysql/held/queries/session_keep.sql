-- The connection id reveals a proxy that has switched sessions.
SELECT CONNECTION_ID(),
       IS_USED_LOCK({mark}) <=> CONNECTION_ID() AND IS_USED_LOCK({key}) <=> CONNECTION_ID(),
       EXISTS (SELECT 1 FROM {hold}
               WHERE kind = 'session' AND name = :name AND token = :token AND broken IS NOT NULL);
