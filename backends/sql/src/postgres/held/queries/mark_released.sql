UPDATE {held} SET released = true, updated = clock_timestamp()
WHERE kind = '{kind}' AND name = :name AND token = :token
RETURNING 1::bigint;
