SELECT held.name, held.session, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0, held.shared
FROM (
    SELECT name, token, identity, fence, ttl_ms, session, broken, FALSE AS shared FROM {hold}
    WHERE kind = 'row' AND (name > :from OR :inclusive AND name = :from)
    UNION ALL
    SELECT name, token, identity, fence, ttl_ms, session, broken, TRUE FROM {reader}
    WHERE kind = 'row' AND (name > :from OR :inclusive AND name = :from)
) AS held
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session
WHERE IS_USED_LOCK({mark_of_held}) = held.session
ORDER BY held.name, held.session
LIMIT :limit;
