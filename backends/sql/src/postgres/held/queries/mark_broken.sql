-- The first break keeps its reason.
UPDATE {held} SET broken = coalesce(broken, :note), updated = clock_timestamp()
WHERE kind = '{kind}' AND name = :name AND token = :token
RETURNING 1::bigint;
