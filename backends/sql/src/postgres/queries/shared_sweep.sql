WITH gone AS (
    DELETE FROM {shared_holder} WHERE (name, token) IN (
        SELECT name, token FROM {shared_holder}
        WHERE expires < {now} - :idle LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
