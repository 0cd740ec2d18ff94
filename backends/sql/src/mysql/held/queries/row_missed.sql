-- After an unsuccessful attempt, or a reader's wait.
-- Returns whether the row exists.
ROLLBACK;
DO RELEASE_ALL_LOCKS();
SET SESSION wait_timeout = 60;
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
