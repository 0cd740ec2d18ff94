SELECT held.name, COALESCE(beside.token, held.token), COALESCE(beside.identity, held.identity), held.mode,
       COALESCE(beside.fence, held.fence), held.fences, COALESCE(beside.expires, held.expires),
       COALESCE(beside.broken, held.broken), FALSE, {now}, beside.permits, beside.size
FROM (
    SELECT * FROM {lease}
    WHERE name >= :first AND (:after IS NULL OR name > :after) AND name <= :last
      AND token IS NOT NULL AND expires > {now}
    ORDER BY name
    LIMIT :limit
) AS held
LEFT JOIN {beside} AS beside
    ON held.mode <> 'exclusive'
    AND beside.name = held.name AND beside.mode = held.mode AND beside.expires > {now}
ORDER BY held.name;
