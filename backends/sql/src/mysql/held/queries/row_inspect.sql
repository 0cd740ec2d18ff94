-- Nobody can look at row locks without more permissions: a session that bears the mark of the token
-- that was written down holds the row.
SELECT :name, IF(IS_USED_LOCK({mark_of_held}) = held.session, held.session, NULL),
       held.token, held.token, held.identity, held.fence, {left}, held.broken,
       (SELECT COUNT(*) FROM information_schema.processlist AS waiting
        WHERE waiting.info LIKE CONCAT('SELECT name FROM %X''', LOWER(HEX(:name)), '''% FOR UPDATE'))
FROM (SELECT 1 AS one) AS once
LEFT JOIN {hold} AS held ON held.kind = 'row' AND held.name = :name
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session;
