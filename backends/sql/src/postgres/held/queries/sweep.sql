-- A concurrent acquire that read the old floor gets the current time as its fence, so rows with
-- fences above that time stay. Names with readers also stay.
WITH gone AS (
    DELETE FROM {reader} WHERE (kind, name, token) IN (
        SELECT kind, name, token FROM {reader} AS held
        WHERE kind = '{kind}' AND updated < clock_timestamp() - :idle_us * interval '1 microsecond'
          AND NOT EXISTS (SELECT FROM pg_stat_get_activity(held.session::int) AS activity
                          WHERE activity.application_name = {mark_of_held})
        LIMIT :limit
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
), old AS MATERIALIZED (
    SELECT name, token, fence FROM {hold} AS held
    WHERE kind = '{kind}' AND updated < clock_timestamp() - :idle_us * interval '1 microsecond'
      AND fence < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
      AND NOT EXISTS (SELECT FROM pg_stat_get_activity(held.session::int) AS activity
                      WHERE activity.application_name = {mark_of_held})
      AND NOT EXISTS (SELECT FROM {reader} AS reader
                      WHERE reader.kind = '{kind}' AND reader.name = held.name)
    ORDER BY updated LIMIT :limit
    FOR UPDATE SKIP LOCKED
), raised AS (
    UPDATE {meta} SET floor = greatest(floor, (SELECT max(fence) FROM old))
    WHERE EXISTS (SELECT FROM old) RETURNING floor
), deleted AS (
    DELETE FROM {hold} AS held USING old, raised
    WHERE held.kind = '{kind}' AND held.name = old.name RETURNING held.name
), unlocked AS (
    SELECT rows.name FROM {row} AS rows JOIN deleted USING (name) WHERE '{kind}' = 'row'
    FOR UPDATE OF rows SKIP LOCKED
), cleared AS (
    DELETE FROM {row} AS rows USING unlocked WHERE rows.name = unlocked.name
)
SELECT (SELECT count(*) FROM deleted) + (SELECT count(*) FROM gone);
