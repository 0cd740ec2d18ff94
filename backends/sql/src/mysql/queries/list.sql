SELECT held.name, COALESCE(holder.token, held.token), COALESCE(holder.identity, held.identity), held.mode,
       COALESCE(holder.fence, held.fence), held.fences, COALESCE(holder.expires, held.expires),
       COALESCE(holder.broken, held.broken), FALSE, {now}, holder.permits, holder.size
FROM (
    SELECT * FROM {lease}
    WHERE name >= :first AND (:after IS NULL OR name > :after) AND name <= :last
      AND token IS NOT NULL AND expires > {now}
    ORDER BY name LIMIT :limit
) AS held
LEFT JOIN {shared_holder} AS holder
    ON held.mode <> 'exclusive'
    AND holder.name = held.name AND holder.mode = held.mode AND holder.expires > {now}
ORDER BY held.name;
