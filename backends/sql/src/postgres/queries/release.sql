-- Compares the token and frees the name in one step, and tells those who wait.
-- :name, :token, :channel
-- Answers, if the token was there: whether it held
WITH ended AS (
    UPDATE {lease} SET
        token = NULL,
        updated = {now}
    WHERE name = :name AND token = :token
    RETURNING expires > updated AS held, waiting > updated AS waiting
)
SELECT held, CASE WHEN waiting THEN pg_notify(:channel, :name)::text END FROM ended
