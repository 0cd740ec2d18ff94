WITH gone AS (
    DELETE FROM {tombstone} WHERE token IN (
        SELECT token FROM {tombstone}
        WHERE until < {now} LIMIT :limit FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM gone
