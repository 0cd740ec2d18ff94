-- If the token was there, returns whether it held.
WITH ended AS (
    UPDATE {lease} SET
        token = NULL,
        updated = {now}
    WHERE name = :name AND token = :token
    RETURNING expires > updated AS held, waiting > updated AS waiting
)
SELECT held, CASE WHEN waiting THEN pg_notify(:channel, :name)::text END FROM ended
