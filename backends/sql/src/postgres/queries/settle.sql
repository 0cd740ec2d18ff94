-- Frees the name if the token holds it, and keeps the token from ever being granted again: by a
-- tombstone for those who ask later, and by a note in the row for one who is asking just now and
-- doesn't see the tombstone. The second statement waits for that one, so the third sees what it did.
-- :name, :token, :tombstone, :channel
-- Answers, if the token was there: whether it held
INSERT INTO {tombstone} AS tombstone (token, until)
VALUES (:token, {now} + :tombstone)
ON CONFLICT (token) DO UPDATE SET until = greatest(tombstone.until, excluded.until);

INSERT INTO {lease} AS lease
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, waiting, buried)
SELECT :name, NULL, '', 'exclusive', greatest(meta.floor, coalesce(seen.fence + seen.fences - 1, 0)),
       1, 0, 0, {now}, NULL, 0, :token
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
ON CONFLICT (name) DO UPDATE SET
    -- The last sixteen.
    buried = right(lease.buried || ' ' || :token, 16 * 33);

WITH ended AS (
    UPDATE {lease} SET
        token = NULL,
        updated = {now}
    WHERE name = :name AND token = :token
    RETURNING expires > updated AS held, waiting > updated AS waiting
)
SELECT held, CASE WHEN waiting THEN pg_notify(:channel, :name)::text END FROM ended
