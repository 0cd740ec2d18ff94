-- Created last, this row shows that all tables exist.
INSERT IGNORE INTO {meta} (id, version, floor) VALUES (1, 1, 0);
