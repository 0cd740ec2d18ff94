-- Marks a hold as broken, which prevents its renewal. The first break keeps its reason.
-- :name, :token, :broken
-- Returns, if it is held: in how many microseconds it expires
UPDATE {lease} SET broken = COALESCE(broken, :broken)
WHERE name = :name AND token = :token AND expires > {now};

SELECT expires - {now} FROM {lease}
WHERE name = :name AND token = :token AND expires > {now} AND broken IS NOT NULL;
