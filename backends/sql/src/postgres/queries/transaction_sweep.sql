WITH deleted AS (
    DELETE FROM {fence} WHERE name IN (
        SELECT name FROM {fence}
        WHERE updated < clock_timestamp() - :idle_s * interval '1 second'
        LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM deleted;
