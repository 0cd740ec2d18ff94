-- The connection id reveals a proxy that has switched sessions.
SELECT CONNECTION_ID(),
       IS_USED_LOCK({mark}) <=> CONNECTION_ID(),
       EXISTS (SELECT 1 FROM {held}
               WHERE kind = 'row' AND name = :name AND token = :token AND broken IS NOT NULL);
