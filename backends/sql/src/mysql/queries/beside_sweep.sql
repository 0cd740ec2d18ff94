-- Deletes rows of those who held beside others and ran out long ago, some at a time.
-- :idle, :limit
-- Answers: how many
DELETE FROM {beside} WHERE expires < {now} - :idle LIMIT :limit;

SELECT ROW_COUNT();
