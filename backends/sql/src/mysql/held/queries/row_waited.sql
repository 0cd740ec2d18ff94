-- The writer's barrier is a named lock, which outlives the rollback.
ROLLBACK;
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
