-- One page of held names, each with its holders. The caller stops at the prefix's end.
-- ?1 from, ?2 whether that key is included, ?3 boot, ?4 now, ?5 limit
WITH held AS (
    SELECT * FROM lockwright_lease
    WHERE name >= ?1 AND (?2 OR name <> ?1) AND boot = ?3 AND expires_ns > ?4
    ORDER BY name
    LIMIT ?5
)
SELECT held.name,
       coalesce(beside.token, held.token) AS token,
       coalesce(beside.identity, held.identity) AS identity,
       coalesce(beside.mode, held.mode) AS mode,
       coalesce(beside.permits, 0) AS permits,
       coalesce(beside.size, 0) AS size,
       coalesce(beside.fence, held.fence) AS fence,
       held.fences,
       coalesce(beside.expires_ns, held.expires_ns) AS expires_ns,
       held.boot,
       coalesce(beside.broken, held.broken) AS broken
FROM held
LEFT JOIN lockwright_beside AS beside
    ON held.mode <> 'exclusive' AND beside.mode <> 'exclusive'
    AND beside.name = held.name AND beside.boot = ?3 AND beside.expires_ns > ?4
ORDER BY held.name
