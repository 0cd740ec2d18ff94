-- Marks a shared hold as broken, which prevents its renewal. The first break keeps its reason. After
-- `beside_lock`, so that no repeat of the claim runs concurrently.
-- :name, :token, :broken
-- Returns, if it is held: in how many microseconds it expires
UPDATE {beside} SET broken = COALESCE(broken, :broken)
WHERE name = :name AND token = :token AND expires > @lockwright_now AND mode <> 'exclusive';

SELECT CAST(expires - @lockwright_now AS SIGNED) FROM {beside}
WHERE name = :name AND token = :token AND expires > @lockwright_now AND broken IS NOT NULL;

COMMIT;
