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
