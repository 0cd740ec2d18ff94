-- Row locks aren't visible. So a session counts as a holder if it has the mark of a recorded token,
-- or a mark and an idle open transaction.
SELECT :name, holding.pid::bigint, holding.token, held.token, held.identity, last.fence, {left},
       held.broken,
       (SELECT count(*) FROM pg_stat_get_activity(NULL) AS waiting
        WHERE waiting.application_name LIKE 'lockwright/%/' || {digits}
          AND EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = waiting.pid AND NOT granted)),
       coalesce(held.shared, false)
FROM (SELECT) AS once
LEFT JOIN {hold} AS last ON last.kind = 'row' AND last.name = :name
LEFT JOIN (
    (SELECT pid, state, state_change, split_part(application_name, '/', 2) AS token
     FROM pg_stat_get_activity(NULL)
     WHERE application_name LIKE 'lockwright/%/' || {digits}) AS holding
    LEFT JOIN (
        SELECT token, identity, ttl_ms, session, broken, false AS shared FROM {hold}
        WHERE kind = 'row' AND name = :name
        UNION ALL
        SELECT token, identity, ttl_ms, session, broken, true FROM {reader}
        WHERE kind = 'row' AND name = :name) AS held
    ON held.session = holding.pid AND held.token = holding.token
) ON held.token IS NOT NULL OR holding.state = 'idle in transaction';
