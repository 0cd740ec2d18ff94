BEGIN;

SELECT JSON_ARRAYAGG(JSON_ARRAY(lease.name, asked.token, asked.ttl, asked.place))
INTO @lockwright_locked
FROM {asked}
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY) ON lease.name = {asked_name}
FOR UPDATE /*!80000 OF lease */ SKIP LOCKED;

SELECT JSON_ARRAYAGG(JSON_ARRAY(holder.name, holder.token, locked.ttl, locked.place))
INTO @lockwright_locked
FROM {locked}
STRAIGHT_JOIN {shared_holder} AS holder FORCE INDEX (PRIMARY)
    ON holder.name = {locked_name} AND holder.token = {locked_token}
FOR UPDATE /*!80000 OF holder */ SKIP LOCKED;

SET @lockwright_now = {now};

UPDATE {locked}
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY) ON lease.name = {locked_name}
STRAIGHT_JOIN {shared_holder} AS holder FORCE INDEX (PRIMARY)
    ON holder.name = lease.name AND holder.token = {locked_token} AND holder.mode = lease.mode
SET holder.ttl = locked.ttl, holder.expires = @lockwright_now + locked.ttl,
    holder.updated = @lockwright_now
WHERE holder.expires > @lockwright_now AND holder.broken IS NULL
  AND lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > @lockwright_now;

UPDATE (
    SELECT holder.name, MAX(holder.expires) AS ends
    FROM {locked}
    STRAIGHT_JOIN {shared_holder} AS holder FORCE INDEX (PRIMARY)
        ON holder.name = {locked_name} AND holder.token = {locked_token}
    WHERE holder.mode <> 'exclusive' GROUP BY holder.name
) AS latest
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY) ON lease.name = latest.name
SET lease.expires = GREATEST(lease.expires, latest.ends), lease.updated = @lockwright_now
WHERE lease.mode <> 'exclusive' AND lease.token IS NOT NULL AND lease.expires > @lockwright_now;

SELECT asked.place - 1,
       CASE WHEN holder.broken IS NOT NULL OR tombstone.broken IS NOT NULL THEN 'broken'
            WHEN holder.name IS NOT NULL AND locked.place IS NULL
                AND EXISTS (SELECT 1 FROM {lease} AS name WHERE name.name = holder.name)
                THEN 'skipped'
            WHEN holder.expires <= @lockwright_now THEN 'expired'
            WHEN holder.name IS NOT NULL AND lease.name IS NOT NULL THEN 'renewed'
            ELSE 'gone' END,
       FALSE
FROM {asked}
LEFT JOIN {locked} ON locked.place = asked.place
LEFT JOIN {shared_holder} AS holder
    ON holder.name = {asked_name} AND holder.token = {asked_token} AND holder.mode <> 'exclusive'
LEFT JOIN {lease} AS lease
    ON lease.name = holder.name AND lease.mode = holder.mode
    AND lease.token IS NOT NULL AND lease.expires > @lockwright_now
LEFT JOIN {tombstone} AS tombstone ON tombstone.token = {asked_token};

COMMIT;
