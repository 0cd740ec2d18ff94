-- Prevents renewals. If the token has a hold, returns in how many microseconds the hold expires.
UPDATE {lease} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token AND expires > {now}
RETURNING expires - {now}
