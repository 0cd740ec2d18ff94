-- Deletes tombstones that have stood long enough, some at a time.
-- :limit
-- Answers: how many
--
-- By the time at which the statement began, which the index can be asked for.
DELETE FROM {tombstone} WHERE until_us < {begun} ORDER BY until_us LIMIT :limit;

SELECT ROW_COUNT();
