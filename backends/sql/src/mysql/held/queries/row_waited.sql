-- The rollback doesn't open a writer's barrier, which is a named lock.
ROLLBACK;
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
