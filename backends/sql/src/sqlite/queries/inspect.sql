/* list */
-- ?1 first name, ?2 whether the first is included, ?3 boot, ?4 now, ?5 limit, ?6 last name or NULL
WITH held AS (
    SELECT * FROM lockwright_lease AS lease
    -- A BLOB sorts after every name.
    WHERE name >= ?1 AND (?2 OR name <> ?1) AND name <= coalesce(?6, x'')
      AND boot = ?3 AND expires_ns > ?4
      AND (mode NOT IN ('shared', 'permits') OR EXISTS (
          SELECT 1 FROM lockwright_shared_holder AS holder
          WHERE holder.name = lease.name AND holder.boot = ?3 AND holder.expires_ns > ?4
            AND holder.mode <> 'exclusive'))
    ORDER BY name LIMIT ?5
)
SELECT held.name, coalesce(holder.token, held.token) AS token,
       coalesce(holder.identity, held.identity) AS identity,
       coalesce(holder.mode, held.mode) AS mode, coalesce(holder.permits, 0) AS permits,
       coalesce(holder.size, 0) AS size, coalesce(holder.fence, held.fence) AS fence, held.fences,
       coalesce(holder.expires_ns, held.expires_ns) AS expires_ns, held.boot,
       coalesce(holder.granted_ns, held.granted_ns) AS granted_ns,
       coalesce(holder.broken, held.broken) AS broken
FROM held
LEFT JOIN lockwright_shared_holder AS holder
    ON held.mode <> 'exclusive' AND holder.mode <> 'exclusive'
    AND holder.name = held.name AND holder.boot = ?3 AND holder.expires_ns > ?4
ORDER BY held.name

/* foreign_rows */
SELECT (
    SELECT count(*) FROM lockwright_lease
    WHERE NOT CASE mode
            WHEN 'exclusive' THEN length(token) = 32 AND token NOT GLOB '*[^0-9a-f]*'
            WHEN 'shared' THEN token = 'readers'
            WHEN 'permits' THEN token GLOB 'semaphore of [1-9]*'
            ELSE false END
       OR length(name) = 0
       OR fence < 1 OR expires_ns < 0
       OR NOT json_valid(identity)
) + (
    SELECT count(*) FROM lockwright_shared_holder
    WHERE mode NOT IN ('exclusive', 'shared', 'permits')
       OR length(token) <> 32 OR token GLOB '*[^0-9a-f]*'
       OR permits < 0 OR permits > size
       OR length(name) = 0
       OR fence < 1 OR expires_ns < 0
       OR NOT json_valid(identity)
)
