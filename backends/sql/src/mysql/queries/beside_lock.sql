-- What begins a change of those who hold a name beside each other: the name's row is locked, and made if
-- need be, so that all of them take turns. What follows sees what those before have done, and commits.
-- :name
BEGIN;

INSERT INTO {lease}
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, buried, decided)
SELECT :name, NULL, '', 'exclusive',
       GREATEST(meta.floor, COALESCE(seen.fence + seen.fences - 1, 0)),
       1, 0, 0, {now}, NULL, '', 0
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
-- Locked, and as it was.
ON DUPLICATE KEY UPDATE decided = {lease}.decided;

SET @lockwright_now = {now};
