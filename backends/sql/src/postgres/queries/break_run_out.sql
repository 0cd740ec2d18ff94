-- Prevents renewals. If the token holds, returns in how many microseconds it expires.
UPDATE {lease} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now}
RETURNING expires - {now}
