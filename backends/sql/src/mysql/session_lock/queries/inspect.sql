/* session_inspect */
-- The recorded token is the holder's only if the holding session has its mark. NULL is no valid
-- lock name, so without a record the statement tests an unused name.
SELECT :name, IS_USED_LOCK({key}),
       IF(IS_USED_LOCK({key}) <=> IS_USED_LOCK(COALESCE({mark_of_held}, ' lockwright/')), held.token, NULL),
       held.token, held.identity, held.fence, {left}, held.broken,
       (SELECT COUNT(*) FROM information_schema.processlist AS waiting
        WHERE waiting.state = 'User lock'
          AND waiting.info LIKE CONCAT('%GET_LOCK(%X''', LOWER(HEX({key})), '''%')),
       FALSE, {since}
FROM (SELECT 1 AS one) AS once
LEFT JOIN {hold} AS held ON held.kind = 'session' AND held.name = :name
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session;

/* session_list */
SELECT held.name, IS_USED_LOCK({key_of_held}),
       IF(IS_USED_LOCK({key_of_held}) <=> IS_USED_LOCK({mark_of_held}), held.token, NULL),
       held.token, held.identity, held.fence, {left}, held.broken, 0, FALSE,
       {since}
FROM {hold} AS held
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session
WHERE held.kind = 'session' AND (held.name > :from OR :inclusive AND held.name = :from)
  AND IS_USED_LOCK({key_of_held}) IS NOT NULL
ORDER BY held.name LIMIT :limit;

/* row_inspect */
-- Users usually can't see row locks, so a holder is a session whose mark names a recorded token.
SELECT :name, held.session, held.token, held.token, held.identity, last.fence, {left}, held.broken,
       (SELECT COUNT(*) FROM information_schema.processlist AS waiting
        WHERE waiting.info LIKE CONCAT('SELECT name %FROM %X''', LOWER(HEX(:name)), '''% FOR UPDATE')
           OR waiting.info LIKE CONCAT('SELECT name %FROM %X''', LOWER(HEX(:name)),
                                       '''% LOCK IN SHARE MODE')
           OR waiting.info LIKE CONCAT('SET @lockwright_barrier = %X''', LOWER(HEX(:name)), '''%')),
       held.shared, {since}
FROM (SELECT 1 AS one) AS once
LEFT JOIN {hold} AS last ON last.kind = 'row' AND last.name = :name
LEFT JOIN (
    SELECT name, token, identity, ttl_ms, session, updated, broken, FALSE AS shared FROM {hold}
    WHERE kind = 'row' AND name = :name
    UNION ALL
    SELECT name, token, identity, ttl_ms, session, updated, broken, TRUE FROM {reader}
    WHERE kind = 'row' AND name = :name
) AS held ON IS_USED_LOCK({mark_of_held}) = held.session
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session;

/* row_list */
SELECT held.name, held.session, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0, held.shared, {since}
FROM (
    SELECT name, token, identity, fence, ttl_ms, session, updated, broken, FALSE AS shared
    FROM {hold} WHERE kind = 'row' AND (name > :from OR :inclusive AND name = :from)
    UNION ALL
    SELECT name, token, identity, fence, ttl_ms, session, updated, broken, TRUE
    FROM {reader} WHERE kind = 'row' AND (name > :from OR :inclusive AND name = :from)
) AS held
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session
WHERE IS_USED_LOCK({mark_of_held}) = held.session ORDER BY held.name, held.session LIMIT :limit;
