-- :holds is JSON [[name, token, ttl], ...]. Returns for each hold its index, 'renewed' or why not,
-- and whether the name has waiters. 'skipped' means that another session has locked the row.
--
-- Reads the clock after locking the rows, so no expired hold is renewed.
WITH asked AS (
    SELECT hold ->> 0 AS name, hold ->> 1 AS token, (hold ->> 2)::bigint AS ttl, place - 1 AS place
    FROM json_array_elements(:holds::json) WITH ORDINALITY AS each (hold, place)
), locked AS MATERIALIZED (
    SELECT lease.name, lease.token, lease.broken, asked.ttl, asked.place
    FROM asked JOIN {lease} AS lease ON lease.name = asked.name AND lease.token = asked.token
    ORDER BY lease.name FOR UPDATE OF lease SKIP LOCKED
), renewed AS (
    UPDATE {lease} AS lease SET ttl = locked.ttl, expires = {now} + locked.ttl, updated = {now}
    FROM locked WHERE lease.name = locked.name
      AND lease.token = locked.token AND lease.expires > {now} AND lease.broken IS NULL
    RETURNING locked.place, lease.waiting > lease.updated AS waiting
)
SELECT asked.place,
       CASE WHEN renewed.place IS NOT NULL THEN 'renewed'
            -- If the statement waited for a break, only `locked` shows it.
            WHEN coalesce(locked.broken, lease.broken, tombstone.broken) IS NOT NULL THEN 'broken'
            WHEN lease.name IS NOT NULL AND locked.place IS NULL THEN 'skipped'
            WHEN lease.expires <= {now} THEN 'expired'
            ELSE 'gone' END,
       coalesce(renewed.waiting, false)
FROM asked
LEFT JOIN locked ON locked.place = asked.place
LEFT JOIN renewed ON renewed.place = asked.place
LEFT JOIN {lease} AS lease ON lease.name = asked.name AND lease.token = asked.token
LEFT JOIN {tombstone} AS tombstone ON tombstone.token = asked.token
