-- Frees the name, and leaves a tombstone against the holder's next renewal or repeated claim.
-- Returns the hold's remaining microseconds, if there was one.
WITH freed AS (
    UPDATE {lease} SET
        token = NULL, updated = {now}, tombstones = right(tombstones || ' ' || :token, 16 * 33)
    WHERE name = :name AND token = :token AND expires > {now}
    RETURNING expires - updated AS remaining, updated, waiting
), tombstone AS (
    INSERT INTO {tombstone} AS tombstone (token, until, broken)
    SELECT :token, updated + greatest(remaining, :tombstone), :broken FROM freed
    ON CONFLICT (token) DO UPDATE SET
        until = greatest(tombstone.until, excluded.until),
        broken = coalesce(tombstone.broken, excluded.broken)
)
SELECT remaining, CASE WHEN waiting > updated THEN pg_notify(:channel, :name)::text END FROM freed
