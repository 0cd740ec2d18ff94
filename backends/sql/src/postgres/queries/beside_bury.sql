-- Keeps a token from ever being granted again. Before `beside_lock`: whoever is asking for it just now is
-- waited for there, and whoever asks later sees this.
-- :token, :tombstone
--
-- The level of isolation is set first, as `beside_lock` sets it: after the first query it can't be changed.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

INSERT INTO {tombstone} AS tombstone (token, until)
VALUES (:token, {now} + :tombstone)
ON CONFLICT (token) DO UPDATE SET until = greatest(tombstone.until, excluded.until);
