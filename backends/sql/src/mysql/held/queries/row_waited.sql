-- After the rollback, a writer's barrier stays closed.
ROLLBACK;
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
