-- Grants a reader's hold or permits, renews the token's own hold, or records a waiter. Runs after
-- `shared_lock`. :kind is the token in the name's row: `readers` or `semaphore of N`, where N is the
-- size that the latest holder gave. Returns the columns of `acquire`, then `permits` and `size`.
WITH seen AS MATERIALIZED (
    SELECT lease.*, now, coalesce(lease.token IS NOT NULL AND lease.expires > now, false) AS live,
           coalesce(lease.token IS NOT NULL AND lease.mode = :mode AND lease.expires > now, false) AS ours
    FROM {lease} AS lease
    CROSS JOIN (SELECT {now} AS now OFFSET 0) AS at
    WHERE lease.name = :name
), others AS MATERIALIZED (
    SELECT coalesce(sum(holder.permits) FILTER (WHERE holder.mode <> 'exclusive'), 0) AS taken,
           min(holder.expires) FILTER (WHERE holder.mode <> 'exclusive') AS first_end,
           max(holder.expires) FILTER (WHERE holder.mode = 'exclusive' AND holder.fence = seen.fence)
               AS writer_until
    FROM seen
    JOIN {shared_holder} AS holder ON holder.name = seen.name AND holder.expires > seen.now
), own AS MATERIALIZED (
    SELECT holder.*
    FROM seen
    JOIN {shared_holder} AS holder ON holder.name = seen.name AND holder.token = :token
    WHERE seen.ours AND holder.expires > seen.now AND holder.mode <> 'exclusive'
), state AS MATERIALIZED (
    SELECT seen.*, first_end, writer_until,
           CASE
               WHEN position(:token IN seen.tombstones) > 0
                   OR EXISTS (SELECT FROM {tombstone} WHERE token = :token) THEN 'ended'
               WHEN EXISTS (SELECT FROM own WHERE broken IS NULL) THEN 'again'
               WHEN EXISTS (SELECT FROM own) THEN 'broken'
               WHEN live AND NOT ours THEN 'busy'
               WHEN :size = 0 AND writer_until IS NOT NULL THEN 'busy'
               WHEN :size > 0 AND taken + :permits > :size THEN 'busy'
               ELSE 'new'
           END AS does,
           CASE WHEN ours AND :size = 0 THEN seen.fence
                ELSE greatest(seen.fence + seen.fences, (SELECT floor + 1 FROM {meta}), now) END AS next
    FROM seen CROSS JOIN others
), added AS (
    INSERT INTO {shared_holder} AS holder
        (name, token, identity, mode, permits, size, fence, ttl, expires, updated, broken)
    SELECT :name, :token, :identity, :mode, :permits, :size, next, :ttl, now + :ttl, now, NULL
    FROM state WHERE does = 'new'
    -- An existing row belongs to an ended hold.
    ON CONFLICT (name, token) DO UPDATE SET
        (identity, mode, permits, size, fence, ttl, expires, updated, broken) = (
            excluded.identity, excluded.mode, excluded.permits, excluded.size, excluded.fence,
            excluded.ttl, excluded.expires, excluded.updated, NULL)
    RETURNING holder.*
), rearmed AS (
    UPDATE {shared_holder} AS holder SET ttl = :ttl, expires = now + :ttl, updated = now
    FROM state WHERE does = 'again' AND holder.name = :name AND holder.token = :token
    RETURNING holder.*
), kept AS (
    UPDATE {lease} AS lease SET
        token = :kind, identity = '', mode = :mode,
        fence = CASE WHEN does = 'new' THEN next ELSE lease.fence END, fences = 1, ttl = :ttl,
        expires = CASE WHEN ours THEN greatest(lease.expires, now + :ttl) ELSE now + :ttl END,
        updated = now, broken = NULL
    FROM state WHERE does IN ('new', 'again') AND lease.name = :name
), noted AS (
    UPDATE {lease} AS lease SET waiting = now + 30000000
    FROM state
    WHERE does = 'busy' AND :waits AND lease.name = :name AND lease.waiting <= now + 15000000
), pruned AS (
    DELETE FROM {shared_holder} AS holder USING state
    WHERE does = 'new' AND holder.name = :name AND holder.token <> :token
      AND holder.expires < now - 60000000
), answer AS (
    SELECT * FROM added
    UNION ALL SELECT * FROM rearmed
    UNION ALL SELECT own.* FROM own CROSS JOIN state WHERE does = 'broken'
)
SELECT false, answer.name, answer.token, answer.identity, answer.mode, answer.fence, 1::bigint,
       answer.expires, answer.broken, state.waiting > now, now, answer.permits, answer.size
FROM answer CROSS JOIN state
UNION ALL
SELECT does = 'ended', name, CASE WHEN live THEN token END, identity, mode, fence, fences::bigint,
       CASE WHEN ours AND :size > 0 THEN first_end
            WHEN live THEN expires
            ELSE coalesce(writer_until, now) END,
       broken, waiting > now, now, NULL::bigint, NULL::bigint
FROM state WHERE does IN ('ended', 'busy');
