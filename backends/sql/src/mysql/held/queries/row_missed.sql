-- After a try in vain, and a reader's wait: whether there was something to lock.
ROLLBACK;
DO RELEASE_ALL_LOCKS();
SET SESSION wait_timeout = 60;
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
