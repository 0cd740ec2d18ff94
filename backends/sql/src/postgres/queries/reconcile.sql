-- Leaves a tombstone, and frees the name if its row has the token. Then returns whether the hold
-- was unexpired.
--
-- A concurrent acquire may not see the tombstone, so the second statement adds the token to the
-- name's row too. It waits for the acquire, whose grant the third sees.
INSERT INTO {tombstone} AS tombstone (token, until)
VALUES (:token, {now} + :tombstone)
ON CONFLICT (token) DO UPDATE SET until = greatest(tombstone.until, excluded.until);

INSERT INTO {lease} AS lease
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, waiting, tombstones)
SELECT :name, NULL, '', 'exclusive', greatest(meta.floor, coalesce(seen.fence + seen.fences - 1, 0)),
       1, 0, 0, {now}, NULL, 0, :token
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
ON CONFLICT (name) DO UPDATE SET
    -- Keeps the last sixteen tokens. Sweeps keep the row for at least a minute.
    tombstones = right(lease.tombstones || ' ' || :token, 16 * 33), updated = {now};

WITH ended AS (
    UPDATE {lease} SET token = NULL, updated = {now}
    WHERE name = :name AND token = :token
    RETURNING expires > updated AS held, waiting > updated AS waiting
)
SELECT held, CASE WHEN waiting THEN pg_notify(:channel, :name)::text END FROM ended
