-- Marks a hold beside others as broken: it can't be renewed any more. The first break keeps its reason.
-- After `beside_lock`, so that it meets no repeat of the claim half-way.
-- :name, :token, :broken
-- Answers, if it is held: in how many microseconds it runs out
UPDATE {beside} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token
  AND expires > {now} AND mode <> 'exclusive'
RETURNING expires - {now}
