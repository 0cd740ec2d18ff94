-- Joins by the key, as a scan would wait for other rows.
BEGIN;

SELECT JSON_ARRAYAGG(JSON_ARRAY(lease.name, asked.token, asked.ttl, asked.place))
INTO @lockwright_locked
FROM {asked}
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY)
    ON lease.name = CONVERT(asked.name USING utf8mb4) COLLATE utf8mb4_bin
-- MySQL requires OF, which MariaDB lacks.
FOR UPDATE /*!80000 OF lease */ SKIP LOCKED;

SELECT JSON_ARRAYAGG(JSON_ARRAY(beside.name, beside.token, locked.ttl, locked.place))
INTO @lockwright_locked
FROM {locked}
STRAIGHT_JOIN {beside} AS beside FORCE INDEX (PRIMARY)
    ON beside.name = CONVERT(locked.name USING utf8mb4) COLLATE utf8mb4_bin
    AND beside.token = CONVERT(locked.token USING utf8mb4) COLLATE utf8mb4_bin
FOR UPDATE /*!80000 OF beside */ SKIP LOCKED;

SET @lockwright_now = {now};

UPDATE {locked}
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY)
    ON lease.name = CONVERT(locked.name USING utf8mb4) COLLATE utf8mb4_bin
STRAIGHT_JOIN {beside} AS beside FORCE INDEX (PRIMARY)
    ON beside.name = lease.name
    AND beside.token = CONVERT(locked.token USING utf8mb4) COLLATE utf8mb4_bin
    AND beside.mode = lease.mode
SET beside.ttl = locked.ttl,
    beside.expires = @lockwright_now + locked.ttl,
    beside.updated = @lockwright_now
WHERE beside.expires > @lockwright_now AND beside.broken IS NULL
  AND lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > @lockwright_now;

UPDATE (
    SELECT beside.name, MAX(beside.expires) AS ends
    FROM {locked}
    STRAIGHT_JOIN {beside} AS beside FORCE INDEX (PRIMARY)
        ON beside.name = CONVERT(locked.name USING utf8mb4) COLLATE utf8mb4_bin
        -- Only by the key: an UPDATE locks each row that it reads.
        AND beside.token = CONVERT(locked.token USING utf8mb4) COLLATE utf8mb4_bin
    WHERE beside.mode <> 'exclusive'
    GROUP BY beside.name
) AS latest
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY) ON lease.name = latest.name
SET lease.expires = GREATEST(lease.expires, latest.ends), lease.updated = @lockwright_now
WHERE lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > @lockwright_now;

SELECT asked.place - 1,
       CASE WHEN beside.broken IS NOT NULL OR tombstone.broken IS NOT NULL THEN 'broken'
            WHEN beside.name IS NOT NULL AND locked.place IS NULL
                AND EXISTS (SELECT 1 FROM {lease} AS name WHERE name.name = beside.name)
                THEN 'skipped'
            WHEN beside.expires <= @lockwright_now THEN 'expired'
            WHEN beside.name IS NOT NULL AND lease.name IS NOT NULL THEN 'renewed'
            ELSE 'gone' END,
       FALSE
FROM {asked}
LEFT JOIN {locked} ON locked.place = asked.place
LEFT JOIN {beside} AS beside
    ON beside.name = CONVERT(asked.name USING utf8mb4) COLLATE utf8mb4_bin
    AND beside.token = CONVERT(asked.token USING utf8mb4) COLLATE utf8mb4_bin
    AND beside.mode <> 'exclusive'
LEFT JOIN {lease} AS lease
    ON lease.name = beside.name AND lease.mode = beside.mode
    AND lease.token IS NOT NULL AND lease.expires > @lockwright_now
LEFT JOIN {tombstone} AS tombstone
    ON tombstone.token = CONVERT(asked.token USING utf8mb4) COLLATE utf8mb4_bin;

COMMIT;
