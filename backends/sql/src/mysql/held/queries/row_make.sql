-- Inserts no existing row, because that would wait for the row's lock. The named lock prevents an
-- insert by another client after the check.
SET @lockwright_made = GET_LOCK({mark_of_row}, 1);
INSERT IGNORE INTO {row} (name)
SELECT :name FROM {meta} WHERE NOT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
DO RELEASE_LOCK({mark_of_row});
