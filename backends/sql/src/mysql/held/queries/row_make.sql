-- The named lock admits one creator at a time. Otherwise a second one would insert an existing row,
-- and wait for its lock.
SET @lockwright_made = GET_LOCK({mark_of_row}, 1);
INSERT IGNORE INTO {row} (name)
SELECT :name FROM {meta} WHERE NOT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
DO RELEASE_LOCK({mark_of_row});
