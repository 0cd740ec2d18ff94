-- What begins a change of those who hold a name beside each other: the name's row is locked, and made if
-- need be, so that all of them take turns. What follows sees what those before have done.
-- :name
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

INSERT INTO {lease} AS lease
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, waiting, buried)
SELECT :name, NULL, '', 'exclusive', greatest(meta.floor, coalesce(seen.fence + seen.fences - 1, 0)),
       1, 0, 0, {now}, NULL, 0, ''
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
-- Locked, and not written.
ON CONFLICT (name) DO UPDATE SET updated = excluded.updated WHERE false;
