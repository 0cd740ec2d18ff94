-- Locks the name's row, and creates it if missing. At this isolation level, the next statements see
-- all changes committed before the lock.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

INSERT INTO {lease} AS lease
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, waiting, tombstones)
SELECT :name, NULL, '', 'exclusive', greatest(meta.floor, coalesce(seen.fence + seen.fences - 1, 0)),
       1, 0, 0, {now}, NULL, 0, ''
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
-- Changes no existing row, but locks it.
ON CONFLICT (name) DO UPDATE SET updated = excluded.updated WHERE false;
