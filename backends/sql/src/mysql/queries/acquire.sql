-- The first assignment, to `decided`, reads the clock after the row was locked, and determines the
-- others. The token in the second statement's row shows whether the claim was granted.
INSERT INTO {lease}
    (name, token, identity, mode, fence, fences, ttl, expires, updated, broken, tombstones, decided)
SELECT :name, :token, :identity, 'exclusive',
       GREATEST(meta.floor + 1, COALESCE(seen.fence + seen.fences, 0), {now}),
       :fences, :ttl, {now} + :ttl, {now}, NULL, '', 2
FROM {meta} AS meta
LEFT JOIN {lease} AS seen ON seen.name = :name
WHERE NOT EXISTS (SELECT 1 FROM {tombstone} WHERE token = :token)
  AND NOT COALESCE(seen.token <> :token AND seen.expires > {now}, FALSE)
ON DUPLICATE KEY UPDATE
    decided = CASE
        WHEN ({lease}.token IS NULL OR {lease}.expires <= {now})
            AND LOCATE(VALUES(token), {lease}.tombstones) = 0 THEN 2
        WHEN {lease}.token = VALUES(token) AND {lease}.expires > {now}
            AND {lease}.broken IS NULL THEN 1
        ELSE 0 END,
    token = IF({lease}.decided = 2, VALUES(token), {lease}.token),
    identity = IF({lease}.decided = 2, VALUES(identity), {lease}.identity),
    mode = IF({lease}.decided = 2, VALUES(mode), {lease}.mode),
    -- Before `fences`, whose old value it uses.
    fence = IF({lease}.decided = 2, GREATEST({lease}.fence + {lease}.fences, VALUES(fence)),
               {lease}.fence),
    fences = IF({lease}.decided = 2, VALUES(fences), {lease}.fences),
    broken = IF({lease}.decided = 2, NULL, {lease}.broken),
    ttl = IF({lease}.decided > 0, VALUES(ttl), {lease}.ttl),
    expires = IF({lease}.decided > 0, {now} + VALUES(ttl), {lease}.expires),
    updated = IF({lease}.decided > 0, {now}, {lease}.updated);

SELECT tombstone.token IS NOT NULL OR COALESCE(LOCATE(:token, lease.tombstones) > 0, FALSE),
       lease.name, lease.token, lease.identity, lease.mode, lease.fence, lease.fences, lease.expires,
       lease.broken, FALSE, {now}
FROM {meta} AS meta
LEFT JOIN {lease} AS lease ON lease.name = :name
LEFT JOIN {tombstone} AS tombstone ON tombstone.token = :token;
