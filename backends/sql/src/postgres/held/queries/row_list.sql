SELECT held.name, activity.pid::bigint, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0::bigint
FROM {hold} AS held
JOIN LATERAL pg_stat_get_activity(held.session::int) AS activity
     ON activity.application_name = {mark_of_held}
WHERE held.kind = 'row'
  AND (held.name > :from OR :inclusive AND held.name = :from)
ORDER BY held.name
LIMIT :limit;
