-- A paused client must not overwrite the next holder's row. So the session's mark is checked again
-- once the row is locked.
INSERT INTO {hold} AS held (kind, name, token, identity, fence, ttl_ms, session, updated)
SELECT '{kind}', :name, :token, :identity,
       greatest((SELECT floor FROM {meta}) + 1,
                (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
       :ttl_ms, :session, clock_timestamp()
FROM pg_stat_get_activity(:session::int) AS activity
WHERE activity.application_name = {mark}
ON CONFLICT (kind, name) DO UPDATE SET
    token = excluded.token,
    identity = excluded.identity,
    fence = greatest(held.fence + 1, excluded.fence),
    ttl_ms = excluded.ttl_ms,
    session = excluded.session,
    updated = excluded.updated,
    broken = NULL,
    released = false
WHERE {still_marked}
RETURNING fence;
