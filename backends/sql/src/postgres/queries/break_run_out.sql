-- Prevents renewals. Returns the hold's remaining microseconds, if there is one.
UPDATE {lease} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token AND expires > {now}
RETURNING expires - {now}
