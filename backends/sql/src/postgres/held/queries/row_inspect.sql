-- Row locks aren't visible. So a holder is a session whose mark contains a recorded token.
SELECT :name, holding.pid::bigint, held.token, held.token, held.identity, last.fence, {left},
       held.broken,
       (SELECT count(*) FROM pg_stat_get_activity(NULL) AS waiting
        WHERE waiting.application_name LIKE 'lockwright/%/' || {digits}
          AND EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = waiting.pid AND NOT granted)),
       held.shared
FROM (SELECT) AS once
LEFT JOIN {hold} AS last ON last.kind = 'row' AND last.name = :name
LEFT JOIN (
    (SELECT name, token, identity, ttl_ms, session, broken, false AS shared FROM {hold}
     WHERE kind = 'row' AND name = :name
     UNION ALL
     SELECT name, token, identity, ttl_ms, session, broken, true FROM {reader}
     WHERE kind = 'row' AND name = :name) AS held
    JOIN LATERAL pg_stat_get_activity(held.session::int) AS holding
         ON holding.application_name = {mark_of_held}
) ON true;
