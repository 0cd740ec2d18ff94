SELECT held.name, held.session, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0
FROM {hold} AS held
LEFT JOIN information_schema.processlist AS activity ON activity.id = held.session
WHERE held.kind = 'row'
  AND (held.name > :from OR :inclusive AND held.name = :from)
  AND IS_USED_LOCK({mark_of_held}) = held.session
ORDER BY held.name
LIMIT :limit;
