SAVEPOINT lockwright;
INSERT INTO {fence} AS seen (name, fence, updated) VALUES (:name, :fence, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET fence = EXCLUDED.fence, updated = EXCLUDED.updated
WHERE seen.fence <= EXCLUDED.fence;
SELECT fence FROM {fence} WHERE name = :name;
RELEASE SAVEPOINT lockwright;
