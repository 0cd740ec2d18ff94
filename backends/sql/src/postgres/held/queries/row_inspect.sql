-- Row locks stand in the rows, where nobody can look: a session that bears the mark of the token
-- that was written down holds the row.
SELECT :name, activity.pid::bigint, held.token, held.token, held.identity, held.fence, {left}, held.broken,
       (SELECT count(*) FROM pg_stat_get_activity(NULL) AS waiting
        WHERE waiting.application_name LIKE 'lockwright/%/' || {digits}
          AND EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = waiting.pid AND NOT granted))
FROM (SELECT) AS once
LEFT JOIN {hold} AS held ON held.kind = 'row' AND held.name = :name
LEFT JOIN LATERAL pg_stat_get_activity(held.session::int) AS activity
       ON activity.application_name = {mark_of_held};
