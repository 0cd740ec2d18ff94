-- Locks the name's row until the transaction ends, and raises its fence.
-- Last row: the highest fence, which is :fence unless it is above. The read locks, so that no snapshot is
-- taken before the changes of another transaction.
SAVEPOINT lockwright_probe;
RELEASE SAVEPOINT lockwright_probe;
INSERT INTO {fence} (name, fence, updated) VALUES (:name, :fence, UTC_TIMESTAMP())
ON DUPLICATE KEY UPDATE updated = IF(fence <= :fence, UTC_TIMESTAMP(), updated),
                        fence = GREATEST(fence, :fence);
SELECT fence FROM {fence} WHERE name = :name FOR UPDATE;
