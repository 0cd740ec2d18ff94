-- These statements change nothing, but fail without the permissions for changes.
INSERT INTO {lease} SELECT * FROM {lease} WHERE FALSE;
UPDATE {lease} SET updated = updated WHERE FALSE;
DELETE FROM {lease} WHERE FALSE;
INSERT INTO {shared_holder} SELECT * FROM {shared_holder} WHERE FALSE;
UPDATE {shared_holder} SET updated = updated WHERE FALSE;
DELETE FROM {shared_holder} WHERE FALSE;
INSERT INTO {tombstone} SELECT * FROM {tombstone} WHERE FALSE;
UPDATE {tombstone} SET until_us = until_us WHERE FALSE;
DELETE FROM {tombstone} WHERE FALSE;
UPDATE {meta} SET floor = floor WHERE FALSE;
INSERT INTO {hold} SELECT * FROM {hold} WHERE FALSE;
UPDATE {hold} SET updated = updated WHERE FALSE;
DELETE FROM {hold} WHERE FALSE;
INSERT INTO {reader} SELECT * FROM {reader} WHERE FALSE;
UPDATE {reader} SET updated = updated WHERE FALSE;
DELETE FROM {reader} WHERE FALSE;
INSERT INTO {row} SELECT * FROM {row} WHERE FALSE;
DELETE FROM {row} WHERE FALSE;
