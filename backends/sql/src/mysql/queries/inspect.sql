SELECT held.name, COALESCE(holder.token, held.token), COALESCE(holder.identity, held.identity),
       held.mode, COALESCE(holder.fence, held.fence), held.fences,
       COALESCE(holder.expires, held.expires), COALESCE(holder.broken, held.broken), FALSE, {now},
       holder.permits, holder.size
FROM (SELECT * FROM {lease} WHERE {which}) AS held
LEFT JOIN {shared_holder} AS holder
    ON held.mode <> 'exclusive' AND held.token IS NOT NULL AND held.expires > {now}
    AND holder.name = held.name AND holder.mode = held.mode AND holder.expires > {now}
ORDER BY held.name
