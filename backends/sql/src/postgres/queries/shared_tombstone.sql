-- Leaves a tombstone before `shared_lock` waits for a concurrent acquire. A transaction can't
-- change its isolation level after its first query.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

INSERT INTO {tombstone} AS tombstone (token, until)
VALUES (:token, {now} + :tombstone)
ON CONFLICT (token) DO UPDATE SET until = greatest(tombstone.until, excluded.until);
