-- The tombstone of `break_now`. Runs after `shared_lock`, before the hold is removed.
INSERT INTO {tombstone} AS tombstone (token, until, broken)
SELECT :token, {now} + greatest(holder.expires - {now}, :tombstone), :broken
FROM {shared_holder} AS holder
WHERE name = :name AND token = :token AND expires > {now} AND mode <> 'exclusive'
ON CONFLICT (token) DO UPDATE SET
    until = greatest(tombstone.until, excluded.until),
    broken = coalesce(tombstone.broken, excluded.broken);
