SELECT held.name, holding.pid::bigint, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0::bigint, held.shared
FROM (
    SELECT name, token, identity, fence, ttl_ms, session, broken, false AS shared FROM {hold}
    WHERE kind = 'row' AND (name > :from OR :inclusive AND name = :from)
    UNION ALL
    SELECT name, token, identity, fence, ttl_ms, session, broken, true FROM {reader}
    WHERE kind = 'row' AND (name > :from OR :inclusive AND name = :from)
) AS held
JOIN LATERAL pg_stat_get_activity(held.session::int) AS holding
     ON holding.application_name = {mark_of_held}
ORDER BY held.name, holding.pid
LIMIT :limit;
