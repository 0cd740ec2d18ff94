-- After a try in vain: whether there was something to lock.
ROLLBACK;
DO RELEASE_ALL_LOCKS();
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
