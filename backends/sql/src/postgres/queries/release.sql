UPDATE {lease} SET token = NULL, updated = {now}
WHERE name = :name AND token = :token
RETURNING expires > updated, CASE WHEN waiting > updated THEN pg_notify(:channel, :name)::text END
