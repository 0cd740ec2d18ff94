-- Frees the name if its row has the token. In that case, returns whether the hold was unexpired.
WITH ended AS (
    UPDATE {lease} SET
        token = NULL,
        updated = {now}
    WHERE name = :name AND token = :token
    RETURNING expires > updated AS held, waiting > updated AS waiting
)
SELECT held, CASE WHEN waiting THEN pg_notify(:channel, :name)::text END FROM ended
