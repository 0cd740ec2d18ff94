-- The SELECT locks the row, because a plain SELECT could use an older snapshot.
INSERT INTO {fence} (name, fence, updated) VALUES (:name, :fence, UTC_TIMESTAMP())
ON DUPLICATE KEY UPDATE updated = IF(fence <= :fence, UTC_TIMESTAMP(), updated),
                        fence = GREATEST(fence, :fence);
SELECT fence FROM {fence} WHERE name = :name FOR UPDATE;
