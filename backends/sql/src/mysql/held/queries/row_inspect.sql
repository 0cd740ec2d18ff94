-- Users usually can't see row locks. So a session counts as a holder if it has the mark of a
-- recorded token.
SELECT :name, held.session, held.token, held.token, held.identity, last.fence, {left}, held.broken,
       (SELECT COUNT(*) FROM information_schema.processlist AS waiting
        WHERE waiting.info LIKE CONCAT('SELECT name %FROM %X''', LOWER(HEX(:name)), '''% FOR UPDATE')
           OR waiting.info LIKE CONCAT('SELECT name %FROM %X''', LOWER(HEX(:name)),
                                       '''% LOCK IN SHARE MODE')
           OR waiting.info LIKE CONCAT('SET @lockwright_barrier = %X''', LOWER(HEX(:name)), '''%')),
       held.shared
FROM (SELECT 1 AS one) AS once
LEFT JOIN {hold} AS last ON last.kind = 'row' AND last.name = :name
LEFT JOIN (
    SELECT name, token, identity, ttl_ms, session, broken, FALSE AS shared FROM {hold}
    WHERE kind = 'row' AND name = :name
    UNION ALL
    SELECT name, token, identity, ttl_ms, session, broken, TRUE FROM {reader}
    WHERE kind = 'row' AND name = :name
) AS held ON IS_USED_LOCK({mark_of_held}) = held.session
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session;
