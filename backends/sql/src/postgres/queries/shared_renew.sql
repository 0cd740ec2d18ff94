-- Has the parameter and the columns of `renew`. 'skipped' means that another session has locked the
-- holder's row or the name's row.
--
-- Locks the names' rows in order, to avoid deadlocks, and reads the clock afterwards.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

WITH locked AS MATERIALIZED (
    SELECT name FROM {lease}
    WHERE name IN (SELECT hold ->> 0 FROM json_array_elements(:holds::json) AS each (hold))
    ORDER BY name FOR UPDATE SKIP LOCKED
)
-- A setting passes the locked names to the next statement.
SELECT count(*) FROM locked
HAVING set_config('lockwright.locked', coalesce(json_agg(name), '[]')::text, true) IS NULL;

WITH locked AS MATERIALIZED (
    SELECT place
    FROM json_array_elements(:holds::json) WITH ORDINALITY AS each (hold, place)
    JOIN {shared_holder} AS holder ON holder.name = hold ->> 0 AND holder.token = hold ->> 1
    WHERE holder.name IN (
        SELECT json_array_elements_text(current_setting('lockwright.locked')::json)
    )
    FOR NO KEY UPDATE OF holder SKIP LOCKED
)
SELECT count(*) FROM locked
HAVING set_config('lockwright.locked', coalesce(json_agg(place), '[]')::text, true) IS NULL;

WITH asked AS MATERIALIZED (
    SELECT hold ->> 0 AS name, hold ->> 1 AS token, (hold ->> 2)::bigint AS ttl, place - 1 AS place,
           place IN (
               SELECT json_array_elements_text(current_setting('lockwright.locked')::json)::bigint
           ) AS is_locked
    FROM json_array_elements(:holds::json) WITH ORDINALITY AS each (hold, place)
), at AS MATERIALIZED (
    SELECT {now} AS now
), renewed AS (
    UPDATE {shared_holder} AS holder SET ttl = asked.ttl, expires = now + asked.ttl, updated = now
    FROM asked
    CROSS JOIN at
    JOIN {lease} AS lease ON lease.name = asked.name
    WHERE asked.is_locked AND holder.name = asked.name AND holder.token = asked.token
      AND holder.expires > now AND holder.broken IS NULL
      -- A waiting writer's row isn't a hold.
      AND holder.mode <> 'exclusive'
      AND lease.mode = holder.mode AND lease.token IS NOT NULL AND lease.expires > now
    RETURNING asked.place, holder.name, holder.expires, lease.waiting > now AS waiting
), kept AS (
    UPDATE {lease} AS lease SET expires = greatest(lease.expires, latest.expires), updated = now
    FROM (SELECT name, max(expires) AS expires FROM renewed GROUP BY name) AS latest
    CROSS JOIN at
    WHERE lease.name = latest.name
)
SELECT asked.place,
       CASE WHEN renewed.place IS NOT NULL THEN 'renewed'
            WHEN holder.broken IS NOT NULL OR tombstone.broken IS NOT NULL THEN 'broken'
            WHEN holder.name IS NOT NULL AND NOT asked.is_locked
                AND EXISTS (SELECT FROM {lease} AS lease WHERE lease.name = asked.name)
                THEN 'skipped'
            WHEN holder.expires <= now THEN 'expired'
            ELSE 'gone' END,
       coalesce(renewed.waiting, false)
FROM asked
CROSS JOIN at
LEFT JOIN renewed ON renewed.place = asked.place
LEFT JOIN {shared_holder} AS holder ON holder.name = asked.name AND holder.token = asked.token
LEFT JOIN {tombstone} AS tombstone ON tombstone.token = asked.token;
