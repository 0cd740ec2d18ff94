-- The token is certain only if the holding session has the recorded token's mark. NULL is no valid
-- lock name, so without a record the statement tests an unused name.
SELECT :name, IS_USED_LOCK({key}),
       IF(IS_USED_LOCK({key}) <=> IS_USED_LOCK(COALESCE({mark_of_held}, ' lockwright/')), held.token, NULL),
       held.token, held.identity, held.fence, {left}, held.broken,
       (SELECT COUNT(*) FROM information_schema.processlist AS waiting
        WHERE waiting.state = 'User lock'
          AND waiting.info LIKE CONCAT('%GET_LOCK(%X''', LOWER(HEX({key})), '''%')),
       FALSE
FROM (SELECT 1 AS one) AS once
LEFT JOIN {hold} AS held ON held.kind = 'session' AND held.name = :name
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session;
