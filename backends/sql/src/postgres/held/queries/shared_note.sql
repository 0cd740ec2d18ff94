-- The fence grows with each writer, and with the first reader after a writer. The row in {hold}
-- stays locked until the commit.
WITH epoch AS (
    INSERT INTO {hold} AS held (kind, name, token, identity, fence, ttl_ms, session, updated)
    SELECT '{kind}', :name, '{readers}', '',
           greatest((SELECT floor FROM {meta}) + 1,
                    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint),
           :ttl_ms, :session, clock_timestamp()
    FROM pg_stat_get_activity(:session::int) AS activity
    WHERE activity.application_name = {mark}
    ON CONFLICT (kind, name) DO UPDATE SET
        token = excluded.token,
        identity = excluded.identity,
        fence = CASE WHEN held.token = excluded.token THEN held.fence
                     ELSE greatest(held.fence + 1, excluded.fence) END,
        ttl_ms = excluded.ttl_ms,
        session = excluded.session,
        updated = excluded.updated,
        broken = NULL,
        released = false
    WHERE {still_marked}
    RETURNING fence
)
INSERT INTO {reader} AS held (kind, name, token, identity, fence, ttl_ms, session, updated)
SELECT '{kind}', :name, :token, :identity, fence, :ttl_ms, :session, clock_timestamp() FROM epoch
ON CONFLICT (kind, name, token) DO UPDATE SET
    identity = excluded.identity,
    fence = excluded.fence,
    ttl_ms = excluded.ttl_ms,
    session = excluded.session,
    updated = excluded.updated,
    broken = NULL,
    released = false
WHERE {still_marked}
RETURNING fence;
