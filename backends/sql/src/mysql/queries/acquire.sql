-- Grants a free or run-out name, or re-arms the token's own hold. There is no note that somebody
-- waits: nobody is told of a release here.
-- :name, :token, :identity, :fences, :ttl
-- Answers one row: buried, name, token, identity, mode, fence, fences, expires, broken, waiting, now
--
-- The first statement is atomic; the second one finds out by the token what it did. A hold that
-- nobody hears of runs out.
--
-- The clock that decides is read after the row was locked. It is read again for what follows from
-- the decision, which is taken once, in the first assignment: those after it see it.
INSERT INTO {lease}
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, buried, decided)
SELECT :name, :token, :identity, 'exclusive',
       -- Above the floor, and above the row, should the sweeper delete it meanwhile.
       GREATEST(meta.floor + 1, COALESCE(seen.fence + seen.fences, 0), {now}),
       :fences, :ttl, {now} + :ttl, {now}, NULL, '', 2
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
WHERE NOT EXISTS (SELECT 1 FROM {tombstone} WHERE token = :token)
  -- Whoever only finds it held writes nothing.
  AND NOT COALESCE(seen.token <> :token AND seen.expires > {now}, FALSE)
ON DUPLICATE KEY UPDATE
    decided = CASE
        WHEN ({lease}.token IS NULL OR {lease}.expires <= {now})
            AND LOCATE(VALUES(token), {lease}.buried) = 0 THEN 2
        WHEN {lease}.token = VALUES(token) AND {lease}.expires > {now}
            AND {lease}.broken IS NULL THEN 1
        ELSE 0 END,
    token = IF({lease}.decided = 2, VALUES(token), {lease}.token),
    identity = IF({lease}.decided = 2, VALUES(identity), {lease}.identity),
    mode = IF({lease}.decided = 2, VALUES(mode), {lease}.mode),
    -- Before the number of fences, which is the old one's yet.
    fence = IF({lease}.decided = 2, GREATEST({lease}.fence + {lease}.fences, VALUES(fence)),
               {lease}.fence),
    fences = IF({lease}.decided = 2, VALUES(fences), {lease}.fences),
    broken = IF({lease}.decided = 2, NULL, {lease}.broken),
    ttl = IF({lease}.decided > 0, VALUES(ttl), {lease}.ttl),
    expires = IF({lease}.decided > 0, {now} + VALUES(ttl), {lease}.expires),
    updated = IF({lease}.decided > 0, {now}, {lease}.updated);

SELECT tombstone.token IS NOT NULL OR COALESCE(LOCATE(:token, lease.buried) > 0, FALSE),
       lease.name, lease.token, lease.identity, lease.mode, lease.fence, lease.fences, lease.expires,
       lease.broken, FALSE, {now}
FROM {meta} AS meta
LEFT JOIN {lease} AS lease ON lease.name = :name
LEFT JOIN {tombstone} AS tombstone ON tombstone.token = :token;
