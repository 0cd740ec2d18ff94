-- The named lock prevents an insert by another client after the check. An insert of an existing row
-- would wait for that row's lock.
SET @lockwright_made = GET_LOCK({mark_of_row}, 1);
INSERT IGNORE INTO {row} (name)
SELECT :name FROM {meta} WHERE NOT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
DO RELEASE_LOCK({mark_of_row});
