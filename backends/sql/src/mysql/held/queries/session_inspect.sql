-- The lock says who holds it; the token is known when that session bears the mark of the one that
-- was written down. MySQL rejects a NULL as the name of a lock, so a name without a row is
-- compared with a mark that no session has.
SELECT :name, IS_USED_LOCK({key}),
       IF(IS_USED_LOCK({key}) <=> IS_USED_LOCK(COALESCE({mark_of_held}, ' lockwright/')), held.token, NULL),
       held.token, held.identity, held.fence, {left}, held.broken,
       (SELECT COUNT(*) FROM information_schema.processlist AS waiting
        WHERE waiting.state = 'User lock'
          AND waiting.info LIKE CONCAT('%GET_LOCK(%X''', LOWER(HEX(:name)), '''%')),
       FALSE
FROM (SELECT 1 AS one) AS once
LEFT JOIN {hold} AS held ON held.kind = 'session' AND held.name = :name
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session;
