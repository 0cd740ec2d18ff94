-- The next holder overwrites an exclusive hold's row, so the mark is also stored in {reader}, as a
-- tombstone with session 0.
WITH marked AS (
    UPDATE {held} SET broken = coalesce(broken, :note), updated = clock_timestamp()
    WHERE kind = '{kind}' AND name = :name AND token = :token
    RETURNING kind, name, token, identity, fence, ttl_ms, updated, broken, released
), tombstone AS (
    INSERT INTO {reader} (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
    SELECT kind, name, token, identity, fence, ttl_ms, 0, updated, broken, released FROM marked
    ON CONFLICT (kind, name, token) DO NOTHING
)
SELECT 1::bigint FROM marked;
