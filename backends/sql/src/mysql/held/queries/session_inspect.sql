-- The lock shows the holding session. The token is certain if that session has the mark of the recorded
-- token. MySQL rejects NULL as the name of a lock, so without a row a mark that no session has is used.
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
