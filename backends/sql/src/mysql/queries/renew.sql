-- The rows stay locked until the commit, so no hold is broken between its renewal and the last
-- statement. The joins use the primary key, because a scan would wait for other locked rows.
BEGIN;

SELECT JSON_ARRAYAGG(JSON_ARRAY(lease.name, lease.token, asked.ttl, asked.place))
INTO @lockwright_locked
FROM {asked}
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY)
    ON lease.name = {asked_name} AND lease.token = {asked_token}
-- MySQL requires OF, which MariaDB lacks.
FOR UPDATE /*!80000 OF lease */ SKIP LOCKED;

UPDATE {locked}
STRAIGHT_JOIN {lease} AS lease FORCE INDEX (PRIMARY)
    ON lease.name = {locked_name} AND lease.token = {locked_token}
SET lease.ttl = locked.ttl, lease.expires = {now} + locked.ttl, lease.updated = {now}
WHERE lease.expires > {now} AND lease.broken IS NULL;

SELECT asked.place - 1,
       CASE WHEN lease.broken IS NOT NULL OR tombstone.broken IS NOT NULL THEN 'broken'
            WHEN lease.name IS NOT NULL AND locked.place IS NULL THEN 'skipped'
            WHEN lease.expires <= {now} THEN 'expired'
            WHEN lease.name IS NOT NULL THEN 'renewed'
            ELSE 'gone' END,
       FALSE
FROM {asked}
LEFT JOIN {locked} ON locked.place = asked.place
LEFT JOIN {lease} AS lease ON lease.name = {asked_name} AND lease.token = {asked_token}
LEFT JOIN {tombstone} AS tombstone ON tombstone.token = {asked_token};

COMMIT;
