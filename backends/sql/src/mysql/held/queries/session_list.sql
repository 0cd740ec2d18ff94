SELECT held.name, IS_USED_LOCK({key_of_held}),
       IF(IS_USED_LOCK({key_of_held}) <=> IS_USED_LOCK({mark_of_held}), held.token, NULL),
       held.token, held.identity, held.fence, {left}, held.broken, 0, FALSE
FROM {hold} AS held
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session
WHERE held.kind = 'session'
  AND (held.name > :from OR :inclusive AND held.name = :from)
  AND IS_USED_LOCK({key_of_held}) IS NOT NULL
ORDER BY held.name
LIMIT :limit;
