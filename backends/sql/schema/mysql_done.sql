-- Last, because it says that all the tables are there: whoever finds it makes none.
INSERT IGNORE INTO {meta} (id, version, floor) VALUES (1, 1, 0);
