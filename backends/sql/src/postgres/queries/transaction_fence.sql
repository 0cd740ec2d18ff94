-- Locks the name's row until the transaction ends, and raises its fence.
-- Last row: the highest fence, which is :fence unless it is above.
SAVEPOINT lockwright;
INSERT INTO {fence} AS seen (name, fence, updated) VALUES (:name, :fence, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET fence = EXCLUDED.fence, updated = EXCLUDED.updated
WHERE seen.fence <= EXCLUDED.fence;
SELECT fence FROM {fence} WHERE name = :name;
RELEASE SAVEPOINT lockwright;
