-- Frees the name, tells those who wait, and leaves a tombstone, which tells the holder at its next
-- renewal and keeps a repeat of its claim out.
-- :name, :token, :broken, :tombstone, :channel
-- Answers, if it is held: for how many microseconds its holder may go on believing
WITH freed AS (
    UPDATE {lease} SET
        token = NULL,
        updated = {now},
        buried = right(buried || ' ' || :token, 16 * 33)
    WHERE name = :name AND token = :token
      AND expires > {now}
    RETURNING expires - updated AS remaining, updated, waiting
), tombstone AS (
    INSERT INTO {tombstone} AS tombstone (token, until, broken)
    SELECT :token, updated + greatest(remaining, :tombstone), :broken FROM freed
    ON CONFLICT (token) DO UPDATE SET
        until = greatest(tombstone.until, excluded.until),
        broken = coalesce(tombstone.broken, excluded.broken)
)
SELECT remaining, CASE WHEN waiting > updated THEN pg_notify(:channel, :name)::text END FROM freed
