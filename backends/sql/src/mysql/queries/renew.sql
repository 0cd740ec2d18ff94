-- Re-arms every hold of the batch that is still held.
-- :holds JSON [[name, token, ttl], ...]
-- Answers for each: its place, 'renewed' or why not, whether somebody waits
--
-- A hold that the second statement finds alive and unbroken was so when the first one looked, and
-- was re-armed: nothing makes one alive or mends it under the same token.
UPDATE {asked}
STRAIGHT_JOIN {lease} AS lease
    ON lease.name = CONVERT(asked.name USING utf8mb4) COLLATE utf8mb4_bin
    AND lease.token = CONVERT(asked.token USING utf8mb4) COLLATE utf8mb4_bin
SET lease.ttl = asked.ttl,
    lease.expires = {now} + asked.ttl,
    lease.updated = {now}
WHERE lease.expires > {now} AND lease.broken IS NULL;

SELECT asked.place - 1,
       CASE WHEN lease.broken IS NOT NULL OR tombstone.broken IS NOT NULL THEN 'broken'
            WHEN lease.expires <= {now} THEN 'expired'
            WHEN lease.name IS NOT NULL THEN 'renewed'
            ELSE 'gone' END,
       FALSE
FROM {asked}
LEFT JOIN {lease} AS lease
    ON lease.name = CONVERT(asked.name USING utf8mb4) COLLATE utf8mb4_bin
    AND lease.token = CONVERT(asked.token USING utf8mb4) COLLATE utf8mb4_bin
LEFT JOIN {tombstone} AS tombstone
    ON tombstone.token = CONVERT(asked.token USING utf8mb4) COLLATE utf8mb4_bin;
