-- As row_missed, after a writer's wait. A gate that it has closed stays closed.
ROLLBACK;
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
