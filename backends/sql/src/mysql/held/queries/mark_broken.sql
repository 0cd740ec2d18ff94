-- The first break keeps its reason.
UPDATE {held} SET broken = COALESCE(broken, :note), updated = {now}
WHERE kind = '{kind}' AND name = :name AND token = :token;
SELECT 1 FROM {held} WHERE kind = '{kind}' AND name = :name AND token = :token;
