-- The first break keeps its reason.
UPDATE {hold} SET broken = COALESCE(broken, :note), updated = {now}
WHERE kind = '{kind}' AND name = :name AND token = :token;
SELECT 1 FROM {hold} WHERE kind = '{kind}' AND name = :name AND token = :token;
