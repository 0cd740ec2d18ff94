-- This row is inserted last, so its presence shows that all tables exist.
INSERT IGNORE INTO {meta} (id, version, floor) VALUES (1, 1, 0);
