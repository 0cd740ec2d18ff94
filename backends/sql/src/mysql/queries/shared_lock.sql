-- The SQL appended to this file commits.
BEGIN;

INSERT INTO {lease}
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, tombstones, decided)
SELECT :name, NULL, '', 'exclusive',
       GREATEST(meta.floor, COALESCE(seen.fence + seen.fences - 1, 0)), 1, 0, 0, {now}, NULL, '', 0
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
-- Changes no existing row, but locks it.
ON DUPLICATE KEY UPDATE decided = {lease}.decided;

SET @lockwright_now = {now};
