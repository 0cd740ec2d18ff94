/* sweep */
-- Deletes at most :limit rows that aren't held and didn't change for :idle_us, and returns how
-- many. Later fences are higher, because the sequence is above the deleted ones.
WITH locks AS MATERIALIZED (
    SELECT {lock_key} AS key FROM pg_locks AS locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
), gone AS (
    DELETE FROM {reader} WHERE (kind, name, token) IN (
        SELECT kind, name, token FROM {reader} AS held
        WHERE kind = '{kind}' AND updated < clock_timestamp() - :idle_us * interval '1 microsecond'
          AND {claim_of_held} NOT IN (SELECT key FROM locks)
        LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING 1
), old AS MATERIALIZED (
    SELECT name FROM {hold} AS held
    WHERE kind = '{kind}' AND updated < clock_timestamp() - :idle_us * interval '1 microsecond'
      AND coalesce({claim_of_held}, 0) NOT IN (SELECT key FROM locks)
      AND {key_of_held} NOT IN (SELECT key FROM locks)
      AND NOT EXISTS (SELECT FROM {reader} AS reader
                      WHERE reader.kind = '{kind}' AND reader.name = held.name)
    ORDER BY updated LIMIT :limit FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM {hold} AS held USING old
    WHERE held.kind = '{kind}' AND held.name = old.name RETURNING held.name
), unlocked AS (
    SELECT rows.name FROM {row} AS rows JOIN deleted USING (name) WHERE '{kind}' = 'row'
    FOR UPDATE OF rows SKIP LOCKED
), cleared AS (
    DELETE FROM {row} AS rows USING unlocked WHERE rows.name = unlocked.name
), unrecorded AS (
    -- Rows of names without any recorded hold.
    SELECT rows.name FROM {row} AS rows
    WHERE '{kind}' = 'row' AND NOT EXISTS (SELECT FROM deleted)
      AND NOT EXISTS (SELECT FROM {hold} AS held WHERE held.kind = 'row' AND held.name = rows.name)
    LIMIT :limit FOR UPDATE OF rows SKIP LOCKED
), cleared_too AS (
    DELETE FROM {row} AS rows USING unrecorded WHERE rows.name = unrecorded.name RETURNING 1
)
SELECT (SELECT count(*) FROM deleted) + (SELECT count(*) FROM gone)
     + (SELECT count(*) FROM cleared_too);
