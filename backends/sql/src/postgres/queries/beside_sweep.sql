-- Deletes some rows of shared holds that expired long ago.
-- :idle, :limit
-- Returns: how many
WITH gone AS (
    DELETE FROM {beside} WHERE (name, token) IN (
        SELECT name, token FROM {beside}
        WHERE expires < {now} - :idle
        LIMIT :limit
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
