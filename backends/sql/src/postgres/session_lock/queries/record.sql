/* note */
-- Records a hold, from another session. Returns no row if a recorded fence is higher.
INSERT INTO {hold} AS held (kind, name, token, identity, fence, ttl_ms, session, updated)
VALUES ('{kind}', :name, :token, :identity, :fence, :ttl_ms, :session, clock_timestamp())
ON CONFLICT (kind, name) DO UPDATE SET {overwritten}, fence = excluded.fence WHERE held.fence <= excluded.fence
RETURNING fence;

/* shared_note */
-- Records a reader, with the recorded fence while a recorded reader still has its hold. Otherwise,
-- a writer may have had an unrecorded hold since, so the reader gets a new fence. Returns no row if
-- the name has a writer's record with a higher fence.
WITH epoch AS (
    INSERT INTO {hold} AS held (kind, name, token, identity, fence, ttl_ms, session, updated)
    VALUES ('{kind}', :name, '{readers}', :token, :fence, :ttl_ms, :session, clock_timestamp())
    ON CONFLICT (kind, name) DO UPDATE SET {overwritten},
        fence = CASE WHEN held.token <> excluded.token THEN excluded.fence
                     -- In a row for readers, `identity` is the last reader's token. This
                     -- statement's snapshot may lack that reader's row in {reader}.
                     WHEN held.identity <> excluded.identity AND {last_is_reading} OR EXISTS (
                         SELECT FROM {reader} AS other
                         WHERE other.kind = '{kind}' AND other.name = :name AND other.token <> :token
                           AND other.fence = held.fence AND {other_is_reading}) THEN held.fence
                     ELSE greatest(held.fence, excluded.fence) END
    WHERE held.token = excluded.token OR held.fence <= excluded.fence
    RETURNING fence
)
INSERT INTO {reader} AS held (kind, name, token, identity, fence, ttl_ms, session, updated)
SELECT '{kind}', :name, :token, :identity, fence, :ttl_ms, :session, clock_timestamp() FROM epoch
ON CONFLICT (kind, name, token) DO UPDATE SET {overwritten}, fence = excluded.fence
RETURNING fence;

/* must_raise */
SELECT {must_raise};

/* raise */
-- Raises the sequence of fences after a crash, which may have lost its last values, or if it is a
-- minute behind the time, so that fences grow after a restore. Waits for the disk. While this
-- statement runs, other sessions issue far fewer than 16777216 fences, so it never lowers the
-- sequence.
BEGIN;
SET LOCAL synchronous_commit = local;
SELECT pg_advisory_xact_lock(5499258310474722404);
SELECT setval('{hold_fence}', greatest(last_value + 16777216, {now}))
FROM {hold_fence} WHERE {must_raise};
INSERT INTO {hold_raised} (id) VALUES (1) ON CONFLICT DO NOTHING;
COMMIT;
