-- A new reader shares the fence of those whose records exist, so the record is deleted together with
-- the lock.
DELETE FROM {reader} WHERE kind = 'row' AND name = :name AND token = :token;
COMMIT;
SELECT RELEASE_LOCK({mark}), RELEASE_ALL_LOCKS();
