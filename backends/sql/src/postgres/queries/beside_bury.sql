-- Leaves a tombstone for a token. Before `beside_lock`, which waits for a concurrent claim with the token.
-- Later claims see the tombstone.
-- :token, :tombstone
--
-- Sets the isolation level first, as `beside_lock` does: it can't be changed after the first query.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

INSERT INTO {tombstone} AS tombstone (token, until)
VALUES (:token, {now} + :tombstone)
ON CONFLICT (token) DO UPDATE SET until = greatest(tombstone.until, excluded.until);
